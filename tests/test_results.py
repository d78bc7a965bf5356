import math
import re
import shutil

import claims_tables
import make
import pandas as pd
import pytest

NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
IN_TABLES = "".join(make.markdown_table(table()) for table in make.TABLES.values())
IN_FILES = "".join(path.read_text() for path in (make.DOCS / "results").glob("*.csv"))
PAPERS = "".join(path.read_text() for path in (make.DOCS.parent / "configs" / "paper").glob("*.csv"))
VERSIONS = {"2.10", "3.11", "3.13", "4.3"}  # of PyTorch, Python and bash, in README
QUOTING = [make.DOCS.parent / "README.md", *(make.DOCS / name for name in make.PAGES)]


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


@pytest.mark.parametrize("page", QUOTING, ids=lambda path: path.name)
def test_every_number_of_the_prose_is_in_a_table_or_a_csv_file(page):
    text = make.BLOCK.sub("", page.read_text(encoding="utf-8"))
    prose = re.sub(r"```.*?```|\]\([^)]*\)", "", text, flags=re.DOTALL)
    known = {f"{100 * p:g}" for file in ("states", "experiments", "entropy") for p in make.read(file)["p"]}
    known |= {number for text in (IN_TABLES, IN_FILES, PAPERS) for number in NUMBER.findall(text)}
    assert set(NUMBER.findall(prose)) <= known | VERSIONS


def test_prices_are_paired_by_seed_over_the_rows_that_there_are(monkeypatch):
    """A is (1, 15%) less (4, 62.2%), B that less (1, 62.2%); of seed 3 a cell is missing, of (2, p) all."""
    scores = {(1, 0.15): [0.5, 0.6, 0.7], (4, 0.622): [0.4, 0.4, 0.4], (1, 0.622): [0.1, 0.3]}
    rows = [(k, p, seed, r2, 10 * r2) for (k, p), found in scores.items() for seed, r2 in enumerate(found, 1)]
    data = pd.DataFrame(rows, columns=["k", "p", "seed", "r2", "r2_beyond_counts"]).assign(updates=1000)
    untrained = pd.DataFrame({"k": [1], "p": [None], "seed": [1], "r2": [0.0], "updates": [0]})
    monkeypatch.setattr(claims_tables, "rows_of", lambda name: pd.concat([data, untrained]))
    table = claims_tables.prices().set_index(claims_tables.prices()["price"].str.split(",").str[0])
    assert table["R^2"].to_dict() == {"A": "+0.200 ± 0.058", "B": "+0.200 ± 0.100", "B - A": "+0.050 ± 0.150"}
    assert table["95% interval, R^2"]["A"] == "-0.048 to +0.448"  # 4.3027 standard errors
    assert table["beyond counts"].to_dict() == {"A": "+2.500 ± 0.500", "B": "+1.000", "B - A": "-1.000"}
    assert table["beyond counts, seed 1"]["B - A"] == "+2.000"
    assert [*table["the paper, MNLI"]] == ["+0.4", "+1.9", "+1.5"]


def test_scores_of_arms_are_less_the_mlms_of_the_same_seed(monkeypatch):
    """ExLM's RMSE is the MLM's times e^-0.02 with seed 1, and e^-0.04 with seed 2; seed 0 only chose."""
    rows = []
    for arm, logs in {"mlm": (9.0, 0.0, 0.0), "exlm": (0.0, -0.02, -0.04)}.items():
        for seed, log in enumerate(logs):
            for finetuned in (-0.01, 0.01):
                row = {"arm": arm, "seed": seed, "rate": 1e-3, "seconds": 10.0, "ft_seed": finetuned}
                row["r2_beyond_counts"] = 0.5 + seed / 10
                scores = {"logP": 1.0, "QED": 0.5, "TPSA": 20.0} if seed else {}
                rows.append(row | {name: x * math.exp(log + finetuned) for name, x in scores.items()})
    monkeypatch.setattr(claims_tables, "rows_of", lambda name: pd.DataFrame(rows))
    mlm, exlm = claims_tables.finetuned_claims().to_dict("records")
    assert mlm["R^2 beyond counts"] == "0.650 ± 0.071"
    assert mlm["seeds"] == exlm["seeds"] == "2" and mlm["all three, less the MLM's, %"] == ""
    assert exlm["all three, less the MLM's, %"] == "-3.0 ± 1.0"
    assert exlm["95% interval"] == "-15.7 to +9.7"  # 12.706 standard errors, of 1 degree of freedom


def test_models_of_the_box_are_told_by_mask_and_passes_with_their_lead_over_the_first(monkeypatch):
    rows = [("a", "joint", 0.001, 1, 0.32, 0.0, 0.0), ("b", "joint", 0.001, 1, 0.36, -0.04, 0.009)]
    rows += [("b", "joint", 0.387, 512, 0.41, -0.01, 0.013), ("b", "ridge R2", None, None, 0.8, 0.01, 0.02)]
    columns = ["model", "measure", "p", "passes", "value", "lead", "standard_error"]
    monkeypatch.setattr(claims_tables, "rows_of", lambda name: pd.DataFrame(rows, columns=columns))
    first, second = claims_tables.box().to_dict("records")
    assert first == {"model": "a", "one mask": "0.320", "38.7%, one by one": "", "embeddings, R^2": ""}
    assert second["one mask"] == "0.360 (-0.040 ± 0.009)"
    assert second["38.7%, one by one"] == "0.410 (-0.010 ± 0.013)"
    assert second["embeddings, R^2"] == "0.800 (+0.010 ± 0.020)"


def test_experiments_without_rows_are_told_as_planned(monkeypatch):
    monkeypatch.setattr(claims_tables, "rows_of", lambda name: pd.DataFrame())
    for table in ("finetuned_claims", "corruption", "box"):
        assert f"{table}.csv has no rows" in make.TABLES[table]()["state"][0]
    page = "<!-- table: prices -->\nold\n<!-- end -->\n<!-- table: claims_states -->\n<!-- end -->\n"
    assert make.filled_in(page) == page.replace("old\n", "")
