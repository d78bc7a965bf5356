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
    """u is the first cell less the second, c that less the third, which has no seed 4; E2's seed 1 is out."""
    found = {1: (9, 9, 9), 2: (0.5, 0.4, 0.1), 3: (0.6, 0.4, 0.3), 4: (0.7, 0.4, None)}
    e2 = {"k": [1, 4, 1], "p": [0.15, 0.622, 0.622]}
    e2b = {"tied": [True, False, True], "p": [0.15, 0.387, 0.387]}
    for table, cells, seeds in ((make.prices, e2, range(1, 5)), (make.tied, e2b, range(2, 5))):
        data = [pd.DataFrame(cells).assign(seed=s, updates=1, r2_beyond_counts=found[s]) for s in seeds]
        if table == make.prices:  # has an untrained model, whose p is NaN, too
            data.append(pd.DataFrame({"k": [1], "seed": [3], "updates": [0], "r2_beyond_counts": [0.0]}))
        monkeypatch.setattr(make, "read", lambda name, data=data: pd.concat(data))
        found_by = " ".join(table()["R² beyond counts"])
        assert found_by == "0.600 0.400 0.200 +0.200 ± 0.058 +0.200 ± 0.100 +0.050 ± 0.150"
        assert [*table()["95% interval"]][2:4] == ["", "-0.048 to +0.448"]  # 4.3027 standard errors


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
    monkeypatch.setattr(make, "RATES", {1.0: "1", 2.0: "2"})
    monkeypatch.setattr(make, "read", {"e1b": pd.DataFrame(rows), "e1b_protocol": ridge}.get)
    pairs = make.e1b_pairs()
    assert [*pairs["ExLM, k = 2: rate"]] == ["2", "1", "1", "2", "", ""]
    found = " ".join(pairs["100 log(RMSE of ExLM / MLM)"])
    assert found == "-1.0 +4.0 +4.0 -3.0 +1.0 ± 1.8 -4.7 to +6.7"
    assert [*make.e1b()["100 log(RMSE / ridge's)"]][2:] == ["-1.7 ± 1.2", "-0.3 ± 7.5"]
