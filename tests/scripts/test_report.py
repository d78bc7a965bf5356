"""scripts/report.py from end to end: what it finds in folders, what it writes, what it refuses."""

import re
from datetime import date

import pytest
import report

from tests.scripts.lib.report.conftest import glue_result, measured, molecule_result, pretrain, trained, write


def reported(folder, *arguments) -> str:
    """The report in a folder, of a call with these arguments."""
    assert report.main([*map(str, arguments)]) == 0
    return (folder / "report.md").read_text(encoding="utf-8")


@pytest.fixture
def output(tmp_path):
    """A folder of the workflow with something of each part."""
    folder = tmp_path / "out"
    settings = {"size": "smoke", "data": "data-bin", "seeds": [1], "finetune_seeds": [1]}
    write(folder / "settings.json", {**settings, "targets": ["table12", "figure4"]})
    for name in ("repeated-mlm-k1-p0.15", "exlm-k4-p0.15"):
        pretrain(folder, name, train=trained())
    molecule_result(folder / "table1/exlm/bbbp/table8/seed-1", "bbbp", 1, 0.7)
    glue_result(folder / "table3/exlm/RTE/lr5e-5-b32-e3-w0.06/seed-1", "RTE", 0.6)
    return folder


def test_a_folder_of_the_workflow(output, capsys):
    text, page = reported(output, output), (output / "report.html").read_text(encoding="utf-8")
    assert capsys.readouterr().out == f"{output / 'report.md'}\n{output / 'report.html'}\n"
    for title in ("Table 1: MoleculeNet", "Table 3: GLUE and", "The study of", "Table 12: training time"):
        assert title in text and title in page
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert pictures == ["pictures/figure4-corrupted-paper.png", "pictures/figure4-corrupted-ours.png"]
    for picture in pictures:
        assert (output / picture).read_bytes().startswith(b"\x89PNG")
    assert page.count("data:image/png;base64,") == 2 and "http" not in page
    assert "1.00" in text  # hours
    assert "> Size smoke shows that everything runs. Its numbers mean nothing" in text
    about = text.split("| results |")[1].splitlines()[2]
    made = ["smoke", "2", "100", "1", "data-bin", "2", "c0ffee", date.today().isoformat()]
    assert about.split(" | ")[1:] == [*made[:-1], f"{made[-1]} |"]


def test_models_by_hand_and_another_folder(output, tmp_path):
    """What is damaged is told at the top."""
    (output / "study/exlm-k4-p0.15/lr-default/seed-1/train.json").write_text("{")
    molecule_result(tmp_path / "mlm" / "bbbp", "bbbp", 1, 0.6)
    glue_result(tmp_path / "mlm" / "rte", "RTE", 0.5)
    write(tmp_path / "mlm/damaged/result.json", {})
    target = tmp_path / "new" / "report"
    hand = f"A | B={tmp_path / 'mlm'}"
    text = reported(target, output, hand, tmp_path / "mlm", "--output", target)
    for name in ("exlm", r"A \| B", "mlm"):
        assert len(re.findall(rf"^\| {re.escape(name)} \| ours", text, re.M)) == 2  # tables 1 and 3
    assert not (output / "report.md").exists()
    for path in ("exlm-k4-p0.15/lr-default/seed-1/train.json", "mlm/damaged/result.json"):
        assert path in text.split("\n## ")[0]


def test_two_studies_have_their_own_pictures_and_results(output, tmp_path, monkeypatch):
    """Those in the working directory are not theirs."""
    for name in ("one", "two"):
        entropy = measured({"entropy": {"mean": 2.0}, "entropy_posterior": None})
        pretrain(tmp_path / name, "exlm-k4-p0.15", train=trained(), entropy=entropy)
        write(tmp_path / name / "settings.json", {"targets": ["figure12"]})
    monkeypatch.chdir(output)
    text = reported(tmp_path / "one", tmp_path / "one", tmp_path / "two")
    assert r"## The study of \[MASK\] in " in text and "Table 1:" not in text and "Table 3" not in text
    for picture in ("figure12-entropy", "study2-figure12-entropy"):
        assert f"(pictures/{picture}.png)" in text


def test_refusals(output, tmp_path, refused):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for *arguments, named in (
        (tmp_path / "empty", "empty"),
        (tmp_path / "none", "none"),
        ("x=", "x="),
        (tmp_path / "file", "file"),
        (output, f"exlm={output / 'table1/exlm'}", "exlm: seed 1 of bbbp"),
        (output, f"exlm={output / 'table3/exlm'}", "exlm: seed 1 of RTE"),
        (output, "--output", tmp_path / "file", "file"),
    ):
        assert named in refused(report.main, *arguments)
