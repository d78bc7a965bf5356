"""scripts/report.py from end to end: what it finds in a folder, what it writes."""

import re
from datetime import date

import report

from tests.scripts.lib.report.conftest import glue_result, molecule_result, pretrain, trained
from tests.support.builders import write_file


def test_a_folder_of_the_workflow(tmp_path, capsys):
    """With something of each part; what is damaged or unknown is told at the top."""
    settings = {"size": "smoke", "data": "data-bin", "seeds": [1], "finetune_seeds": [1, 2]}
    settings |= {"targets": ["table12", "figure4"], "grid": "table6"}
    write_file(tmp_path / "settings.json", settings)
    for name in ("repeated-mlm-k1-p0.15", "exlm-k4-p0.15", "notes"):
        pretrain(tmp_path, name, train=trained())
    for name in ("exlm-smiles", "mine"):
        molecule_result(tmp_path / "table1" / name / "bbbp/table8/seed-1", "bbbp", 1, 0.8, 0.7)
    glue_result(tmp_path / "table3/exlm/RTE/lr5e-5-b32-e3-w0.06/seed-1", "RTE", 0.6)
    write_file(tmp_path / "table3/damaged/result.json", {})
    assert report.main([str(tmp_path)]) == 0
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == f"{tmp_path / 'report.md'}\n"
    for title in ("# ExLM: the paper's", "Table 1: MoleculeNet", "Table 3: GLUE and", "Table 12: training"):
        assert title in text
    top = text.split("| size |")[0]
    assert "table3/damaged/result.json" in top and "notes is not in runs.csv" in top
    for name, cell in (("ExLM", "70.0"), ("mine", "70.0"), ("exlm", "60.0")):
        assert re.search(rf"^\| {name} \| ours .*\| {cell} \(n=1 of 2\)", text, re.M)
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert pictures == ["pictures/figure4-corrupted-paper.png", "pictures/figure4-corrupted-ours.png"]
    assert all((tmp_path / picture).is_file() for picture in pictures)
    about = text.split("| size |")[1].splitlines()[2]
    made = ["smoke", "data-bin", "3", "1", "3", "c0ffee", date.today().isoformat()]
    assert about == f"| {' | '.join(made)} |"


def test_a_set_of_ones_own_is_not_the_papers(tmp_path):
    write_file(tmp_path / "settings.json", {"targets": ["table1"], "moleculenet": {"mine": "data-bin/mine"}})
    molecule_result(tmp_path / "table1/mlm/mine/table8/seed-1", "mine", 1, 0.4, 0.5, "regression")
    page = report.report(tmp_path)
    assert page.title == f"Results of {tmp_path}" and "paper" not in page.markdown()
