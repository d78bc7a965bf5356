"""Table 11's grids and table 6's point."""

import pytest
from lib.data.glue_tasks import TASKS, Point, points_of, task_named

LARGE = ("MNLI", "QNLI", "QQP", "SST-2")


@pytest.mark.parametrize("name", [*TASKS, "squad2"])
def test_table_11(name):
    points = points_of(name)
    if name in LARGE:
        rates, batches, epochs, warmups = (1e-5, 2e-5, 3e-5, 4e-5), (32,), (2, 3, 5), (0.06,)
    else:
        rates, batches, epochs, warmups = (2e-5, 3e-5, 4e-5, 5e-5), (16, 32), (2, 3, 5, 10), (0.06, 0.1)
        epochs = (2, 3) if name == "squad2" else epochs
    expected = {(r, b, e, w) for r in rates for b in batches for e in epochs for w in warmups}
    found = [(float(p.lr), int(p.batch), int(p.epochs), float(p.warmup)) for p in points]
    assert len(found) == len(set(found)) and set(found) == expected


def test_points_by_hand():
    task = "RTE"
    assert points_of(task, "table6") == [Point("5e-5", "32", "3", "0.06")]
    assert len(points_of(task, only={"lr": "2e-05"})) == 16
    assert points_of(task, "table6", {"lr": "1e-3", "epochs": "7"}) == [Point("1e-3", "32", "7", "0.06")]
    assert len(points_of(task, only={"batch": "8"})) == 32  # another batch, and the rest of the grid
    with pytest.raises(ValueError, match="unknown task 'WNLI': choose one of MNLI"):
        task_named("WNLI")
