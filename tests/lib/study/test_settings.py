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
    assert found.only == {"k": 4, "p": 0.15} and found.rates == [1e-3, 2e-3]
    assert found.models == {"exlm": str(checkpoint), "mlm": str(checkpoint)}
    assert (found.updates, found.gpus, found.threads, found.jobs_per_gpu) == (40, 0, 2, 1)
    assert found.tasks == ["RTE", "MNLI"] and found.baselines == ["forest"]
    assert (found.sentences, asked().sentences, asked(sentences=7).sentences) == (2000, 500, 7)


def test_as_a_file_in_yaml(asked, checkpoint):
    found = asked(models={"exlm": str(checkpoint)}, only={"p": 0.0225, "lr": 2e-5}, seeds=[3, 1], updates=1e3)
    assert found.models == {"exlm": str(checkpoint)} and found.only == {"p": 0.0225, "lr": "2e-05"}
    assert found.seeds == [3, 1] and found.updates == 1000 and isinstance(found.updates, int)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"output": None}, "give the folder for the results: --config output="),
        ({"sede": 1}, "unknown setting sede: choose from baselines, data, "),
        ({"seeds": "1,1"}, r"seeds=1,1: .* has non-unique elements \(of pre-training, such as 1,2,3\)"),
        ({"finetune_seeds": "a"}, "finetune_seeds=a: 'a' is not of type 'integer'"),
        ({"updates": 0}, "updates=0: 0 is less than the minimum of 1"),
        ({"only": "k"}, "only=k: '' is not of type 'integer' .*k=4,p=0.15"),
        ({"only": "lr=fast"}, "only=lr=fast: 'fast' does not match"),
        ({"only": "ratio=1"}, r"only=ratio=1: .*'ratio' was unexpected"),
        ({"flags": "--arch x --bf16"}, "flags: --arch would apply to runs that differ in it"),
        ({"flags": "--expand-from-layer 1"}, "flags: --expand-from-layer would apply"),
        ({"rates": "1e-3,2e-3", "seeds": "1,2", "flags": "--lr 1"}, "flags: --lr would apply"),
        ({"finetune_flags": "--lr 1 --bf16"}, "finetune_flags: --lr would apply to runs that differ"),
        ({"only": "lr=1e-3,lr=2e-3"}, "only=lr=1e-3,lr=2e-3: .* is not of type 'object'"),
        ({"models": "exlm=nowhere.pt"}, "models: nowhere.pt does not exist"),
        ({"models": "a/b=."}, "models=a/b=.: 'a/b' does not match"),
        ({"init_from": "exlm=."}, "init_from exlm is none of models"),
        ({"tasks": "XNLI"}, "tasks=XNLI: 'XNLI' is not one of"),
        ({"rates": "1e-3"}, "rates=1e-3: .* such as 5e-4,1e-3,2e-3; the first of seeds chooses"),
        ({"rates": "1e-3,2e-3"}, "give two seeds or more, such as seeds=1,2,3,4"),
        ({"flags": "lr 1e-3"}, "'lr' belongs to no flag"),
        ({"output": "a:b"}, "output=a:b: .*without ':' in its name"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(UserError, match=message):
        settings.read({"output": "runs/x", **given})
