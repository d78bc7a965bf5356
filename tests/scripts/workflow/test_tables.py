"""Tables 1 and 3 from raw data to the report."""

import json
from pathlib import Path

import prepare_glue
import prepare_smiles
import prepare_squad
import pytest
import report

from tests.scripts.workflow.engine import finish
from tests.support import builders
from tests.support.glue import glue_files
from tests.support.molecules import labelled_molecules, molecules
from tests.support.squad import question, squad_json

pytest.importorskip("snakemake", reason="needs Snakemake: pip install -e '.[workflow]'")


def prepare(script, folder: Path, *words) -> None:
    assert script.main([*map(str, (folder, *words))]) == 0


PRETRAINED = ("gpus=0", "updates=2", "flags=--tokens-per-sample 128")  # an ExLM and an MLM of two updates


@pytest.mark.slow
def test_table_1_to_its_report(tmp_path):
    """From SMILES to the report: models on a set, pre-trained and untrained, and a forest."""
    (tmp_path / "molecules.smi").write_text("\n".join(molecules(60)) + "\n")
    smiles = ("--train", tmp_path / "molecules.smi", "--valid-share", 0.2)
    prepare(prepare_smiles, tmp_path / "data", *smiles)
    labelled_molecules(tmp_path, 50, tmp_path / "data", "clintox")
    words = ("output=out", *PRETRAINED, "smiles=data", "moleculenet=clintox=bin", "finetune_seeds=1")
    words += ("max_epoch=1",)
    finish(tmp_path, "table1", "table9", "--cores", "2", "--config", *words)
    report = (tmp_path / "out/report.md").read_text()
    for name in ("exlm-smiles", "mlm-smiles", "untrained", "forest"):
        label = {"exlm-smiles": "ExLM", "mlm-smiles": "SMILES-BERT"}.get(name, name)
        result = json.loads((tmp_path / f"out/table1/{name}/clintox/table8/seed-1/result.json").read_text())
        [row] = [line for line in report.splitlines() if line.startswith(f"| {label} | ours |")]
        [cell] = [cell for cell in row.split(" | ")[2:-1] if cell != "-"]
        assert cell == f"{100 * result['metrics']['test']['auc']:.1f}"
    assert "| ClinTox | multi-label classification | 2 | 2 | 1,182/148/148 | 40/5/5 | random |" in report


@pytest.mark.slow
def test_table_3_to_its_report(tmp_path):
    """From text to the report: a model on STS-B and SQuAD, of which files are asked for, not the table."""
    data = builders.text_folder(tmp_path / "data")
    glue_files(tmp_path / "tsv")
    prepare(prepare_glue, tmp_path / "tsv", tmp_path / "glue", "--data", data, "--tasks", "STS-B")
    context = "the thing then nine inn thin tint ninth"
    known = question("a", [("inn", context.index("inn"))], question="nine thing")
    asked = squad_json(known, question("b", (), question="the ninth"), context=context)
    questions = builders.write_file(tmp_path / "squad.json", asked)
    prepare(prepare_squad, tmp_path / "squad", "--data", data, "--train", questions, "--valid", questions)
    words = ("output=out", *PRETRAINED, "data=data", "glue=glue", "squad=squad", "tasks=STS-B")
    words += ("grid=table6", "max_epoch=2", "finetune_seeds=1,2")
    files = [f"out/table3/exlm-text/{task}/best/seed-2/result.json" for task in ("STS-B", "squad2")]
    finish(tmp_path, *files, "--cores", "2", "--config", *words)
    shown = report.report(tmp_path / "out").markdown()
    [row] = [line for line in shown.splitlines() if line.startswith("| ExLM | ours |")]
    cells = [cell for cell in row.split(" | ")[2:] if cell != "-"]
    for task, metric, cell, scale in (("STS-B", "spearman", 0, 100), ("squad2", "f1", 3, 1)):
        folder = tmp_path / "out/table3/exlm-text" / task
        [tried] = folder.glob("lr*")
        places = (tried / "seed-1/result.json", folder / "best/seed-2/result.json")
        both = sum(json.loads(place.read_text())["metrics"]["valid"][metric] for place in places)
        assert cells[cell].startswith(f"{scale * both / 2:.1f} (n=2)")  # the median of two
