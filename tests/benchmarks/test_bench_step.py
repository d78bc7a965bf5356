"""The benchmark of a training step, and what it counts."""

import bench_step
import pytest

TINY = ["--arch=exlm_tiny", "--baseline=mlm_tiny", "--vocabulary=50", "--tokens=40", "--repeats=1"]


@pytest.mark.slow
def test_prints_a_row_for_each_model(capsys):
    rows = "--batch-size 2 --arch exlm_tiny mlm_tiny --baseline roberta_base --tokens 30"
    bench_step.main([*TINY, *rows.split()])
    table = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    names = [row[0].strip() for row in table[1:]]
    assert names[:3] == ["roberta_base", "exlm_tiny", "mlm_tiny"] and len(names) == 3
    head = [name.strip() for name in table[0]]
    assert all(float(row[head.index("operators")].replace(",", "")) > 100 for row in table[1:])
    assert all(float(row[head.index("TFLOP/s")]) >= 0 for row in table[1:])
    assert [row[head.index("times")].strip() for row in table[1:2]] == ["1.00"]
