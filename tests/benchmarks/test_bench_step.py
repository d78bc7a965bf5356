"""The benchmark of a training step."""

import bench_step
import pytest

TINY = "--arch mlm_tiny exlm_tiny --vocabulary 50 --tokens 30 --batch-size 2 --k 2 --repeats 1"


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", "--update-freq 2 --precision bf16 --optimizer fused_adamw"])
def test_a_row_for_each_model_and_ratios_to_the_first(more, capsys):
    bench_step.main([*TINY.split(), *more.split()])
    table = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    mlm, exlm = ([cell.strip() for cell in row] for row in table[2:])
    assert mlm[0] == "mlm_tiny" and exlm[0] == "exlm_tiny" and mlm[3] == mlm[5] == mlm[7] == "1.00"
    assert 2 < float(mlm[1]) < 12 and float(exlm[4]) > float(exlm[2]) > 0
    assert 1 < float(exlm[7]) == pytest.approx(float(exlm[6]) / float(mlm[6]), abs=0.02)
