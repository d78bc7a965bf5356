"""A disk that is full for a moment, at every write of a script: whatever has a final name is whole, and the
same command goes on. (Single files: tests/test_files.py; trainings: tests/fairseq_patches.)"""

import shutil

import evaluate
import explore
import export_huggingface
import molecules
import prepare_glue
import prepare_moleculenet
import prepare_smiles
import prepare_squad
import prepare_text
import pytest
from lib.data.bpe import dictionary_of

from fs_plugins.data.text_codecs import read_bpe
from fs_plugins.huggingface.export import export
from tests.support import builders, glue, squad
from tests.support.full_disk import at_each_write

SMILES = ["C" * n + end for n in range(1, 9) for end in "ONF"]
SCRIPTS = {
    "text": (prepare_text.main, "{out} --train {text} --bpe {bpe} --workers 1 --valid-share 0.3"),
    "smiles": (prepare_smiles.main, "{out} --train {table} --workers 1 --valid-share 0.3"),
    "glue": (prepare_glue.main, "{glue} {out} --data {bpe} --tasks SST-2 --overwrite"),
    "squad": (prepare_squad.main, "{out} --data {bpe} --valid {squad} --overwrite"),
    "moleculenet": (
        prepare_moleculenet.main,
        "mine {table} {out} --dictionary {atoms} --kind regression --split random",
    ),
    "export": (export_huggingface.main, "{model} {out}"),
    "explore": (explore.main, "{model} <mask> --output {out}"),
    "embed": (molecules.main, "embed {encoder} {table} --output {out}/rows.npy --device cpu"),
    "evaluate": (evaluate.main, "{tuned} {labelled} --output {out} --device cpu"),
}


@pytest.fixture(scope="module")
def inputs(save_checkpoint, tmp_path_factory) -> dict:
    """Returns what SCRIPTS name: the inputs of each script."""
    folder = tmp_path_factory.mktemp("inputs")
    bpe = builders.write_gpt2(folder / "bpe", [("t", "h"), ("i", "n")])
    (bpe / "dict.txt").write_text(dictionary_of(read_bpe(bpe)), encoding="utf-8")
    glue.write_task(folder / "glue", "SST-2")
    builders.write_file(folder / "squad.json", squad.squad_json(squad.question()))
    rows = [f"{smiles},{len(smiles)}" for smiles in SMILES]
    table = builders.write_file(folder / "table.csv", "\n".join(["smiles,y", *rows, "?,1", ""]))
    symbols = builders.dictionary(builders.WORDS)
    for place, own in (("input0", symbols), ("label", builders.dictionary(["no", "yes"]))):
        for split in ("train", "valid"):
            builders.write_split(folder / "mine-bin" / place, split, [[5, 2], [4, 2]], own)
    task = {"_name": "glue", "num_classes": 2, "init_token": 0, "separator_token": 2, "max_positions": 12}
    task |= {"classification_head_name": "h", "regression_target": False}
    atoms, model = builders.dictionary("CONF"), save_checkpoint("exlm_tiny", ext_state_num=2)
    builders.write_dictionary(folder / "atoms", "CONF")
    return {
        "text": builders.write_file(folder / "a.txt", builders.paragraphs_text()),
        "glue": folder / "glue",
        "squad": folder / "squad.json",
        "table": table,
        "atoms": folder / "atoms",
        "bpe": bpe,
        "model": model,
        "encoder": export(save_checkpoint("mlm_smiles", symbols=atoms, data=folder / "atoms"), folder / "m"),
        "tuned": save_checkpoint("mlm_tiny", "sentence_prediction", task, heads=[("classification", "h", 2)]),
        "labelled": folder / "mine-bin",
    }


def contents(folder):
    files = folder.rglob("*") if folder.exists() else ()
    return {
        path.relative_to(folder): path.read_bytes()
        for path in files
        if path.is_file() and path.name != "manifest.json" and not path.name.startswith(".")
    }


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_write(script, inputs, tmp_path):
    main, words = SCRIPTS[script]
    place = tmp_path / "results"
    out = place / "out"
    command = [word.format(**inputs, out=out) for word in words.split()]

    def run(_=None):
        out.parent.mkdir(exist_ok=True)
        statuses.append(main(command) or 0)

    statuses = []
    run()
    whole = contents(out)
    assert statuses == [0] and whole
    shutil.rmtree(place)
    for at, error in at_each_write(place, run):
        assert error is None, (at, error)
        found = contents(out)
        assert found == whole if statuses[-1] == 0 else found.items() <= whole.items()
        if statuses[-1]:
            assert script != "explore" or not found
            run()
            assert statuses[-1] == 0 and contents(out) == whole
        assert not list(place.rglob("*.tmp")) and {path.name for path in place.iterdir()} <= {"out"}
        shutil.rmtree(place)
    assert any(statuses)
