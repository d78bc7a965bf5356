"""The workflow's settings, as Snakemake's config has them."""

import pytest
from lib.command_line import UserError
from lib.study import settings


def test_as_words_of_the_command_line(asked, checkpoint):
    """Snakemake turns numbers and YAML's null and lists into Python's."""
    found = asked(
        **{"size": "small", "data": None, "seeds": "1,2,3", "finetune_seeds": 5, "gpus": 0, "threads": "2"},
        **{"only": "k=4,p=0.15", "models": f"exlm={checkpoint},mlm={checkpoint}", "updates": 40},
        **{"flags": "--dropout 0.1", "tasks": ["RTE", "MNLI"], "rates": "1e-3, 2e-3"},
    )
    assert found.data is None and found.seeds == [1, 2, 3] and found.finetune_seeds == [5]
    assert found.only == {"k": "4", "p": "0.15"} and found.rates == [1e-3, 2e-3]
    assert found.models == {"exlm": str(checkpoint), "mlm": str(checkpoint)}
    assert (found.updates, found.gpus, found.threads, found.jobs_per_gpu) == (40, 0, 2, 1)
    assert found.tasks == ["RTE", "MNLI"] and found.baselines == ["forest"]
    assert (found.sentences, asked().sentences, asked(sentences=7).sentences) == (2000, 500, 7)


def test_as_a_file_in_yaml(asked, checkpoint):
    found = asked(models={"exlm": str(checkpoint)}, only={"p": 0.0225}, seeds=[3, 1], updates=1e3)
    assert found.models == {"exlm": str(checkpoint)} and found.only == {"p": "0.0225"}
    assert found.seeds == [3, 1] and found.updates == 1000 and isinstance(found.updates, int)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"output": None}, "give the folder for the results: --config output="),
        ({"sede": 1}, "unknown setting sede: choose from baselines, data, "),
        ({"size": "huge"}, r"size=huge: 'huge' is not one of \['smoke', 'small', 'paper'\]"),
        ({"grid": "table12"}, "grid=table12: 'table12' is not one of"),
        ({"seeds": "1,1"}, r"seeds=1,1: .* has non-unique elements \(of pre-training, such as 1,2,3\)"),
        ({"finetune_seeds": "a"}, "finetune_seeds=a: 'a' is not of type 'integer'"),
        ({"updates": 0}, "updates=0: 0 is less than the minimum of 1"),
        ({"threads": 1.5}, "threads=1.5: 1.5 is not of type 'integer'"),
        ({"gpus": "two"}, "gpus=two: 'two' is not of type 'integer'"),
        ({"only": "k"}, "only=k: '' should be non-empty .*k=4,p=0.15"),
        ({"only": "lr=1e-3,lr=2e-3"}, "only=lr=1e-3,lr=2e-3: .* is not of type 'object'"),
        ({"models": "exlm=nowhere.pt"}, "models: nowhere.pt does not exist"),
        ({"models": "a/b=."}, "models=a/b=.: 'a/b' does not match"),
        ({"init_from": "exlm=."}, "init_from exlm is none of models"),
        ({"baselines": "forest,svm"}, "baselines=forest,svm: 'svm' is not one of"),
        ({"tasks": "XNLI"}, "tasks=XNLI: 'XNLI' is not one of"),
        ({"rates": "1e-3"}, "rates=1e-3: .* such as 5e-4,1e-3,2e-3; the first of seeds chooses"),
        ({"rates": "1e-3,fast"}, "rates=1e-3,fast: 'fast' is not of type 'number'"),
        ({"rates": "1e-3,0.001"}, "rates=1e-3,0.001: .* has non-unique elements"),
        ({"rates": "1e-3,2e-3"}, "give two seeds or more, such as seeds=1,2,3,4"),
        ({"flags": "lr 1e-3"}, "'lr' belongs to no flag"),
        ({"output": "a:b"}, "output=a:b: .*without ':' in its name"),
        ({"data": "nowhere"}, "data: nowhere does not exist"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(UserError, match=message):
        settings.read({"output": "runs/x", **given})


def test_pretraining_data(asked, data):
    settings.check_study(asked())
    settings.check_study(asked(size="small", data=str(data)))
    with pytest.raises(UserError, match="size=small needs data=FOLDER"):
        settings.check_study(asked(size="small"))
    with pytest.raises(UserError, match="glue=FOLDER needs data=FOLDER"):
        settings.check_study(asked(glue=str(data)))
    (data / "dict.txt").unlink()
    with pytest.raises(UserError, match="has no dict.txt"):
        settings.check_study(asked(size="small", data=str(data)))


def test_what_glue_has_to_hold(asked, data, glue):
    found = asked(data=str(data), glue=str(glue))
    settings.check_glue(found, ("MNLI",), same_dictionary=True)
    (glue / "MNLI-bin" / "input0" / "dict.txt").write_text("other 1\n")
    settings.check_glue(found, ("MNLI",), same_dictionary=False)
    with pytest.raises(UserError, match="dict.txt differs from that of"):
        settings.check_glue(found, ("MNLI",), same_dictionary=True)
    (glue / "MNLI-bin" / "summary.json").unlink()
    with pytest.raises(UserError, match="has no MNLI-bin: prepare it"):
        settings.check_glue(found, ("RTE", "MNLI"), same_dictionary=False)


@pytest.mark.parametrize("flags", ["--max-update=7", "--expand-from-layer 1", "--k 8", "--updates 7"])
def test_flags_that_make_a_run_of_the_study(asked, flags):
    settings.check_study(asked(flags="--lr 1e-3"))
    with pytest.raises(
        UserError, match=f"flags: {flags.split('=')[0].split()[0]} would apply to runs that differ"
    ):
        settings.check_study(asked(flags=f"--lr 1e-3 {flags}"))
