"""What is measured of which run."""

import importlib
import shlex

import pytest
from lib.study.measures import MEASURES, applies, command
from lib.study.runs import DEFAULT_MEASURES, Run, experiments

from tests import builders

EXLM, MLM = Run("a", model="exlm", k=4, p=0.387), Run("b", model="repeated-mlm", k=1)
REPEATED = Run("c", model="repeated-mlm", k=4, p=0.387)


@pytest.mark.parametrize(
    ("run", "ratios"),
    [(EXLM, ["0.15", "0.387"]), (MLM, ["0.15"]), (REPEATED, ["0.15"]), (Run("d", model="exlm"), ["0.15"])],
)
def test_a_run_is_probed_at_15_percent_and_at_its_own_p_unless_tokens_are_repeated(run, ratios):
    expected = ["a b/checkpoint_last.pt", "--mask-prob", *ratios, "--max-sentences", "70"]
    assert shlex.split(command("probe", run, 70, "a b")) == ["fs_plugins.analysis.probe", *expected]


@pytest.mark.parametrize("name", MEASURES)
def test_each_measure_is_a_command_that_knows_its_options(name, capsys):
    module, *arguments = shlex.split(command(name, EXLM, 70, "missing"))
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(module).main([*arguments, "--data", "data-bin"])
    assert ended.value.code != 2, capsys.readouterr().err  # 2: argparse's


def test_measures_of_molecules_and_of_paths(tmp_path):
    molecules, text = builders.smiles_folder(tmp_path / "smiles"), builders.text_folder(tmp_path / "text")
    assert [name for name in MEASURES if not applies(name, EXLM, text)] == ["filling", "atoms"]
    assert [name for name in MEASURES if not applies(name, EXLM, None)] == ["filling", "atoms"]
    assert all(applies(name, EXLM, molecules) for name in MEASURES)
    for run in (MLM, Run("e", model="mlm", k=1), Run("f", model="exlm-no-transitions")):
        assert [name for name in MEASURES if not applies(name, run, molecules)] == ["states"]


def test_comparisons_ask_for_measures_that_exist():
    quality = {"quality", "quality-mnli"}
    named = {name for one in experiments().values() for name in one.measures}
    assert named - quality <= set(MEASURES) and set(DEFAULT_MEASURES) <= set(MEASURES)
