"""What the pages in scripts/ answer before anything is trained."""

import os
import subprocess
import sys

import pytest
from recipes.folders import ROOT

PAGES = ["pretrain_text", "pretrain_smiles", "finetune_glue", "finetune_squad", "finetune_moleculenet"]


def run(page: str, *words):
    environment = {**os.environ, "EXLM_PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    call = ["bash", str(ROOT / "scripts" / f"{page}.sh"), *map(str, words)]
    return subprocess.run(call, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("page", PAGES)
def test_help_and_a_mistake(page):
    result = run(page, "--help")
    assert result.returncode == 0 and result.stderr == ""
    assert result.stdout.startswith(f"usage: {page}.sh ") and "SAVE/made_of.json" in result.stdout
    result = run(page, "one")
    assert result.returncode == 2 and "the following arguments are required" in result.stderr


def test_print_shows_the_cost_and_the_command(tmp_path):
    result = run(
        "pretrain_text", "exlm", "base", tmp_path / "my data", tmp_path / "s", "--gpus", 2, "--print"
    )
    assert result.returncode == 0 and not (tmp_path / "s").exists()
    *cost, command = result.stdout.splitlines()
    assert cost[0] == "parameters        128,258,661" and "A100" in cost[-1]
    assert command.startswith("fairseq-train ") and "my\\ data" in command


def test_an_error_is_one_line_and_trains_nothing(tmp_path):
    result = run("pretrain_text", "exlm", "smoke", tmp_path, tmp_path / "save")
    assert (result.returncode, result.stdout) == (2, "") and result.stderr.count("\n") == 1
    assert "dict.txt does not exist" in result.stderr and not (tmp_path / "save").exists()
