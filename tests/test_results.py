import re
import shutil

import figures
import make
import pytest

NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
IN_TABLES = "".join(make.markdown_table(table()) for table in make.TABLES.values())
IN_FILES = "".join(path.read_text() for path in (make.DOCS / "results").glob("*.csv"))
PAPERS = {"104.2", "54.7", "79.6", "72.8", "91.6", "64.5", "78.2"}  # quoted from tables 1 and 12


def test_tables_are_those_of_the_csv_files(monkeypatch, tmp_path):
    docs = make.DOCS
    monkeypatch.setattr(make, "DOCS", shutil.copytree(docs, tmp_path / "docs"))
    for name in make.PAGES:
        page = tmp_path / "docs" / name
        page.write_text(make.BLOCK.sub(r"\1\3", page.read_text(encoding="utf-8")), encoding="utf-8")
    pictures = sorted(tmp_path.glob("docs/results_*.png"))
    for picture in [*pictures, tmp_path / "docs" / "quickstart.png"]:
        picture.unlink()
    make.main([])
    for name in make.PAGES:
        page = (docs / name).read_text(encoding="utf-8")
        assert (tmp_path / "docs" / name).read_text(encoding="utf-8") == page, "run docs/results/make.py"
    for name in make.LONG:
        path = f"results/tables/{name}.csv"
        assert (tmp_path / "docs" / path).read_text() == (docs / path).read_text(), "run docs/results/make.py"
    assert sorted(tmp_path.glob("docs/results_*.png")) == pictures
    assert (tmp_path / "docs" / "quickstart.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", make.PAGES)
def test_every_number_of_the_prose_is_in_a_table_or_a_csv_file(name):
    page = make.BLOCK.sub("", (make.DOCS / name).read_text(encoding="utf-8"))
    prose = re.sub(r"```.*?```|\]\([^)]*\)", "", page, flags=re.DOTALL)
    known = {f"{100 * p:g}" for file in ("states", "experiments", "entropy") for p in make.read(file)["p"]}
    known |= PAPERS | set(NUMBER.findall(IN_TABLES)) | set(NUMBER.findall(IN_FILES))
    assert set(NUMBER.findall(prose)) <= known


def test_the_numbers_that_are_quoted_are_the_papers():
    every = "".join(path.read_text() for path in (make.DOCS.parent / "configs" / "paper").glob("*.csv"))
    for number in PAPERS:
        assert re.search(rf"\b{number.rstrip('0')}0*\b", every), number


def test_the_gap_over_scale_is_of_models_of_one_size_and_probability():
    figure = make.Figure()
    figures.scale_figure(figure)
    data = make.read("scale").query("p == 0.15 and width == 64").groupby("name")["joint"].mean()
    gaps = {line.get_label(): line.get_ydata()[0] for line in figure.axes[0].get_lines()}
    assert gaps["local, k = 4"] == pytest.approx(data["exlm-local-s-p15"] - data["mlm-s-p15"])
    assert gaps["ExLM (paper), k = 4"] == pytest.approx(data["exlm-s-p15"] - data["mlm-s-p15"])
