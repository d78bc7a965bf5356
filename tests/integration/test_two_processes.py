"""Two data-parallel processes on the CPU against one process with twice the steps an update (--update-freq).

Run with ``-s``, it prints the losses of both. As ``--batch-size`` is a process's, both make the same updates.
"""

import pytest

from tests.integration import commands
from tests.integration.commands import VARIANTS, train, variant
from tests.support import builders, prepared

PLAIN = ["--optimizer", "sgd", "--lr", 0.1, "--dropout", 0, "--attention-dropout", 0, "--max-update", 6]
SMILES = {"exlm": ["--arch", "exlm_smiles"], "mlm": ["--arch", "mlm_smiles"]}
# seven batches an epoch: three are left for its last update, so that one process has a step less
RAGGED = ["--batch-size", 26, "--required-batch-size-multiple", 1]
FULL = ["--batch-size", 1000]  # one batch an epoch: the second process has no sentence

# name -> model of configs/model, data, flags, steps of an update in a process, updates of an earlier run and
# by how many processes
CASES = {name: (name, "text", [], 1, None) for name in VARIANTS}
CASES |= {f"{name}, molecules": (name, "molecules", flags, 1, None) for name, flags in SMILES.items()}
CASES |= {
    "exlm, fairseq's own wrapper": ("exlm", "text", ["--ddp-backend", "legacy_ddp"], 1, None),
    "exlm, epochs end in mid-update": ("exlm", "text", RAGGED, 2, None),
    "mlm, epochs end in mid-update": ("mlm", "text", RAGGED, 2, None),
    "exlm, a process without sentences": ("exlm", "text", FULL, 1, None),
    "mlm, a process without sentences": ("mlm", "text", FULL, 1, None),
    "exlm, begun by one": ("exlm", "text", [], 1, (2, 1)),
    "exlm, begun by two": ("exlm", "text", [], 1, (2, 2)),
    "mlm, molecules, begun by one": ("mlm", "molecules", SMILES["mlm"], 1, (2, 1)),
    "mlm, molecules, begun by two": ("mlm", "molecules", SMILES["mlm"], 1, (2, 2)),
}


@pytest.fixture(scope="module")
def both(corpus, tmp_path_factory):
    """name -> the run of one process; the runs, one after the other, of two (one of them may be of one); the
    folder of each."""
    data, symbols = {"text": corpus, "molecules": tmp_path_factory.mktemp("molecules")}, prepared.ATOMS
    for split, count in (("train", 120), ("valid", 8)):
        builders.write_split(data["molecules"], split, prepared._sentences(count, 1, symbols), symbols)
    place, made, on_two = tmp_path_factory.mktemp("two"), {}, []
    for name, (model, kind, own, steps, begun) in CASES.items():
        folders, words = [place / name / processes for processes in ("one", "two")], [*PLAIN, *own]
        alone = variant(model, data[kind], folders[0], *words, "--update-freq", 2 * steps)
        together = variant(model, data[kind], folders[1], *words, "--update-freq", steps)
        updates, processes = begun or (6, 0)
        one, first, last = train(*alone), [], []
        if processes == 1:
            first = [train(*alone, "--save-dir", folders[1], "--max-update", updates)]
        if processes == 2:
            last = [[*alone, "--save-dir", folders[1]]]
        on_two.append([*together, "--max-update", updates if last else 6])
        made[name] = one, first, last, folders
    runs, done = {}, commands.train_on_two(*on_two)
    for (name, (one, first, last, folders)), run in zip(made.items(), done, strict=True):
        runs[name] = one, [*first, run, *(train(*flags) for flags in last)], folders
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_losses_gradients_and_parameters_are_those_of_one(name, both):
    one, others, folders = both[name]
    figures = {figure: [run.values(figure) for run in (one, *others)] for figure in ("loss", "gnorm", "bsz")}
    for figure, (wanted, *parts) in figures.items():
        found = [value for part in parts for value in part]
        assert len(wanted) == 6 and found == pytest.approx(wanted, abs=2e-3)  # the log's last digit
        if figure == "loss":
            print(f"\n{name:36} one {wanted}\n{'':36} two {found}")
    commands.assert_same_model(*(folder / "checkpoint_last.pt" for folder in folders), 1e-5)
