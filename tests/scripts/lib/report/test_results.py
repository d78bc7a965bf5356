"""The frame of all results, and values over seeds as texts."""

from lib.report.results import cell, frame

from tests.scripts.lib.report.conftest import glue_result, measured, molecule_result, trained
from tests.support.builders import write_file


def test_the_frame_has_every_number_by_where_and_when_it_is_of(tmp_path, add):
    curve = [{"update": u, "loss": 9 - u} for u in (1, 2)]
    probe = measured({"bits": 3.0}, {"mask_prob": 0.5, "bits": 4.0}, updates=7)
    folder = add("exlm", 3, "best", train=trained(curve=curve), probe=probe)
    add("exlm", 4, probe=probe)  # unfinished
    glue_result(folder / "glue/RTE/table6/seed-2", "RTE", 0.5, 2)
    molecule_result(tmp_path / "table1/m/mine/table8/seed-1", "mine", 1, 0.2, 0.1, "regression")
    damaged = write_file(tmp_path / "table3/damaged/result.json", "{")
    problems: list[str] = []
    found = frame(tmp_path, problems)
    assert len(problems) == 1 and str(damaged) in problems[0]
    study = found[found["table"] == "study"]
    assert {(*row,) for row in study[["model", "rate", "seed"]].to_numpy()} == {("exlm", "best", 3)}
    assert study["train.seconds"].dropna().tolist() == [3600]
    assert study.dropna(subset=["log.loss"])[["updates", "log.loss"]].to_numpy().tolist() == [[1, 8], [2, 7]]
    bits = study.dropna(subset=["probe.bits"])[["updates", "p", "probe.bits"]]
    assert bits.to_numpy().tolist() == [[7, 0.15, 3], [7, 0.5, 4]]
    assert study.dropna(subset=["task"])[["tuning_seed", "valid.accuracy"]].to_numpy().tolist() == [[2, 0.5]]
    [one] = found[found["table"] == "table1"].to_dict("records")
    assert (one["model"], one["task"], one["valid.rmse"], one["test.rmse"]) == ("m", "mine", 0.2, 0.1)


def test_values_over_seeds():
    assert cell([]) == cell([None]) == cell([float("nan")]) == ""
    assert cell([-1e-9], 3) == "0.000"
    assert cell([1.0, None, 2.0, 3.0], 2) == "2.00 ± 1.00 (n=3)"
    assert cell([1.0, 2.0], expected=3, median=True) == "1.5 (n=2 of 3)"
    assert cell([1.0, 2.0], count=False) == "1.5 ± 0.7"
