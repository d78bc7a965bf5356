"""The tables of docs/results.md and its appendix are those of the CSV files, paired by seed."""

import math
import shutil

import make
import pandas as pd


def test_tables_are_those_of_the_csv_files(monkeypatch, tmp_path):
    docs = make.DOCS
    monkeypatch.setattr(make, "DOCS", shutil.copytree(docs, tmp_path / "docs"))
    for name in make.PAGES:
        page = tmp_path / "docs" / name
        page.write_text(make.BLOCK.sub(r"\1\3", page.read_text(encoding="utf-8")), encoding="utf-8")
    (tmp_path / "docs/results_gap.png").unlink()
    make.main([])
    for name in make.PAGES:
        page = (docs / name).read_text(encoding="utf-8")
        assert (tmp_path / "docs" / name).read_text(encoding="utf-8") == page, "run docs/results/make.py"
    assert (tmp_path / "docs/results_gap.png").exists()


def test_prices_are_paired_by_seed_over_the_rows_that_there_are(monkeypatch):
    """A is (1, 15%) less (4, 62.2%), B that less (1, 62.2%); of seed 3 a cell is missing, of (2, p) all."""
    scores = {(1, 0.15): [0.5, 0.6, 0.7], (4, 0.622): [0.4, 0.4, 0.4], (1, 0.622): [0.1, 0.3]}
    rows = [(k, p, seed, r2, 10 * r2) for (k, p), found in scores.items() for seed, r2 in enumerate(found, 1)]
    data = pd.DataFrame(rows, columns=["k", "p", "seed", "r2", "r2_beyond_counts"]).assign(updates=1000)
    untrained = pd.DataFrame({"k": [1], "p": [None], "seed": [1], "r2": [0.0], "updates": [0]})
    monkeypatch.setattr(make, "read", lambda name: pd.concat([data, untrained]))
    table = make.prices()
    table = table.set_index(table["price"].str.split(",").str[0])
    assert table["R^2"].to_dict() == {"A": "+0.200 ± 0.058", "B": "+0.200 ± 0.100", "B - A": "+0.050 ± 0.150"}
    assert table["95% interval, R^2"]["A"] == "-0.048 to +0.448"  # 4.3027 standard errors
    assert table["beyond counts"].to_dict() == {"A": "+2.500 ± 0.500", "B": "+1.000", "B - A": "-1.000"}
    assert [*table["the paper, MNLI"]] == ["+0.4", "+1.9", "+1.5"]


def test_each_arm_is_scored_at_the_rate_that_the_other_seeds_choose(monkeypatch):
    """Seed 4 would choose ExLM's rate 1, seeds 5 and 6 choose 2; seed 7 has the chosen ones alone."""
    logs = {("mlm", 1.0): (0, 0, 0, 0), ("mlm", 2.0): (1, 1, 1, None)}
    logs |= {("exlm", 1.0): (-9, 4, 4, None), ("exlm", 2.0): (-1, -1, -3, -3)}
    rows = [
        {"arm": arm, "rate": rate, "seed": seed, "updates": 4000, "seconds": 10.0}
        | dict.fromkeys(make.BESIDE, 0.5)
        | {name: i * math.exp(log / 100) for i, name in enumerate("abcdefgh", 1)}
        for (arm, rate), found in logs.items()
        for seed, log in enumerate(found, 4)
        if log is not None
    ]
    ridge = pd.DataFrame([["ridge", *range(1, 9)]], columns=["checkpoint", *"abcdefgh"])
    monkeypatch.setattr(make, "RATES", [1.0, 2.0])
    monkeypatch.setattr(make, "read", {"e1b": pd.DataFrame(rows), "e1b_protocol": ridge}.get)
    pairs = make.e1b_pairs()
    assert [*pairs["ExLM, k = 2: rate"]] == ["2", "1", "1", "2", ""]
    assert [*pairs["100 log(RMSE of ExLM / MLM)"]] == ["-1.0", "+4.0", "+4.0", "-3.0", "+1.0 ± 1.8"]
    assert [*make.e1b()["100 log(RMSE / ridge's)"]][2:] == ["-2.0 ± 1.2", "-0.3 ± 7.5"]
