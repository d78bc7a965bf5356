"""The workflow's settings, as Snakemake's config has them."""

from dataclasses import replace
from pathlib import Path

import pytest
from lib.command_line import UserError
from lib.study.settings import Settings


def test_as_words_of_the_command_line(checkpoint):
    """Snakemake turns numbers and YAML's null and lists into Python's."""
    given = {
        **{"output": "runs/x", "size": "small", "data": None, "seeds": "1,2,3", "finetune_seeds": 5},
        **{"only": "k=4,p=0.15", "models": f"exlm={checkpoint},mlm={checkpoint}", "updates": 40},
        **{"flags": "--dropout 0.1", "tasks": ["rte", "MNLI"], "gpus": 0, "threads": "2"},
    }
    found = Settings.of(given)
    assert found.output == Path("runs/x") and found.data is None
    assert found.seeds == (1, 2, 3) and found.finetune_seeds == (5,)
    assert found.only == {"k": "4", "p": "0.15"}
    assert found.models == {"exlm": checkpoint, "mlm": checkpoint}
    assert (found.updates, found.gpus, found.threads) == (40, 0, 2)
    assert found.tasks == ("RTE", "MNLI")
    assert (found.sentences, Settings.of({"output": "x"}).sentences) == (2000, 500)


def test_as_a_file_in_yaml(checkpoint):
    given = {"output": "x", "models": {"exlm": str(checkpoint)}, "only": {"p": 0.0225}, "seeds": [3, 1]}
    given |= {"updates": 1e3}
    found = Settings.of(given)
    assert found.models == {"exlm": checkpoint} and found.only == {"p": "0.0225"} and found.seeds == (3, 1)
    assert found.of_finetuning((1, 2)) == (1, 2) and found.updates == 1000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"output": None}, "give the folder for the results: --config output="),
        ({"sede": 1}, "unknown setting sede: choose from baselines, data, "),
        ({"size": "huge"}, "size=huge: choose one of smoke, small, paper"),
        ({"grid": "table12"}, "grid=table12: choose one of table11, table6"),
        ({"seeds": "1,1"}, "seeds='1,1': give different whole numbers, such as 1,2,3"),
        ({"finetune_seeds": "a"}, "finetune_seeds='a': give different whole numbers"),
        ({"updates": 0}, "updates='0': give a whole number, 1 or more"),
        ({"threads": 1.5}, "threads='1.5': give a whole number, 1 or more"),
        ({"gpus": "two"}, "gpus='two': give a whole number, 0 or more"),
        ({"only": "k"}, "only=k: give names and values, such as only=k=4,p=0.15"),
        ({"only": "lr=1e-3,lr=2e-3"}, "only=lr=1e-3,lr=2e-3: a name is given twice"),
        ({"models": "exlm=nowhere.pt"}, "models: nowhere.pt does not exist"),
        ({"models": "a/b=."}, "models: 'a/b' is to name a folder"),
        ({"init_from": "exlm=."}, "init_from exlm is none of models"),
        ({"baselines": "forest,svm"}, "baselines: unknown svm: choose from forest, dmpnn"),
        ({"tasks": "XNLI"}, "unknown task 'XNLI'"),
        ({"rates": "1e-3"}, "rates=1e-3: give different learning rates, such as rates=5e-4,1e-3,2e-3"),
        ({"rates": "1e-3,fast"}, "rates=1e-3,fast: give different learning rates"),
        ({"rates": "1e-3,0.001"}, "rates=1e-3,0.001: give different learning rates"),
        ({"rates": "1e-3,2e-3"}, "give two seeds or more, such as seeds=1,2,3,4"),
        ({"flags": "lr 1e-3"}, "'lr' belongs to no flag"),
        ({"output": "a:b"}, "fairseq takes a folder without ':'"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Settings.of({"output": "runs/x", **given})


def test_pretraining_data(data):
    assert Settings(Path("out")).pretraining_data() == Path("out/data-bin")
    assert Settings(Path("out"), "small", data).pretraining_data() == data
    with pytest.raises(UserError, match="size=small needs data=FOLDER"):
        Settings(Path("out"), "small").pretraining_data()
    with pytest.raises(UserError, match="data=nowhere does not exist"):
        Settings(Path("out"), "small", Path("nowhere")).pretraining_data()
    (data / "dict.txt").unlink()
    with pytest.raises(UserError, match="has no dict.txt"):
        Settings(Path("out"), "small", data).pretraining_data()


@pytest.mark.parametrize(
    ("settings", "name", "options"),
    [
        ({}, "exlm-k4-p0.15", "--k 4 --p 0.15 --seed 1"),
        ({"size": "smoke"}, "repeated-mlm-k1-p0.15-x2", "--k 1 --p 0.15 --seed 1 --updates 240"),
        ({"size": "paper"}, "repeated-mlm-k1-p0.15-x2", "--k 1 --p 0.15 --seed 1 --updates 100000"),
        ({"updates": 30}, "mlm-p38-x4", "--p 0.387 --seed 1 --updates 120"),
        (
            {"updates": 30, "flags": "--dropout 0.1"},
            "exlm-lattice-p38",
            "--k 4 --p 0.387 --seed 1 --updates 30 --dropout 0.1 --expand-from-layer 0",
        ),
    ],
)
def test_options_of_a_run(settings, name, options):
    found = Settings(Path("out"), **settings)
    assert found.options_of(found.runs[name]) == options.split()
    tuned = found.options_of(replace(found.runs[name], seed=3, lr=0.002))
    assert tuned[tuned.index("--seed") :][:2] == ["--seed", "3"] and tuned[tuned.index("--lr") :][:2] == [
        "--lr",
        "0.002",
    ]


def test_what_glue_has_to_hold(data, glue):
    settings = Settings(Path("out"), "small", data, glue)
    settings.check_glue()
    with pytest.raises(UserError, match="glue=FOLDER needs data=FOLDER"):
        Settings(Path("out"), glue=glue).check_glue()
    missing = glue / "MNLI-bin" / "input0" / "valid1.idx"
    missing.unlink()
    with pytest.raises(UserError, match="valid1.idx does not exist: prepare MNLI"):
        settings.check_glue()
    missing.touch()
    (glue / "MNLI-bin" / "input0" / "dict.txt").write_text("other 1\n")
    with pytest.raises(UserError, match="dict.txt differs from that of"):
        settings.check_glue()


def test_flags_that_make_a_run_of_the_study():
    Settings(Path("out"), flags="--lr 1e-3").check_flags()
    with pytest.raises(UserError, match="flags: --max-update would apply to runs that differ in it"):
        Settings(Path("out"), flags="--lr 1e-3 --max-update=7").check_flags()
    with pytest.raises(UserError, match="flags: --expand-from-layer would apply to runs that differ in it"):
        Settings(Path("out"), flags="--expand-from-layer 1").check_flags()
    with pytest.raises(UserError, match="flags: --k, --p, --updates would apply to runs that differ in it"):
        Settings(Path("out"), flags="--k 8 --p 0.3 --updates 7 --bf16").check_flags()
