"""GLUE's files as they are handed out: every task's columns and labels, and what is wrong with a file."""

import prepare_glue
import pytest
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from lib.command_line import UserError
from lib.glue import TASKS, file_of, read_split

from tests.support import builders
from tests.support.glue import LABELLED, UNLABELLED, lines, write_task


def prepare(*arguments) -> int:
    return prepare_glue.main([str(a) for a in arguments])


@pytest.mark.parametrize("name", TASKS)
def test_every_task(name, vocabulary, tmp_path):
    task = TASKS[name]
    write_task(tmp_path / "glue", name, packed=task.regression)
    assert prepare(tmp_path / "glue", tmp_path / "out", "--data", vocabulary) == 0
    folder = tmp_path / "out" / f"{name}-bin"
    codec = get_encoder(str(vocabulary / "encoder.json"), str(vocabulary / "vocab.bpe"))
    header, rows = LABELLED[name]
    columns = (header.lstrip("\ufeff") if header else "source\tlabel\tmark\tsentence").split("\t")
    for split in task.valid_splits + ("train",):
        for i, column in enumerate(task.sentences):
            texts = builders.read_split(folder / f"input{i}", split)
            found = [codec.decode(list(map(int, symbols))) for symbols in texts]
            assert found == [row.split("\t")[columns.index(column)].strip() for row in rows]
        assert (folder / "input1").exists() == (len(task.sentences) == 2)
        wanted = [row.split("\t")[columns.index(task.label)] for row in rows]
        if task.labels:
            labels = Dictionary.load(str(folder / "label" / "dict.txt"))
            assert labels.symbols[labels.nspecial :] == list(task.labels)
            assert [name for [name] in builders.read_split(folder / "label", split)] == wanted
        else:
            scores = (folder / "label" / f"{split}.label").read_text().split()
            assert [float(score) for score in scores] == [4.25, 0.0]
    if name in UNLABELLED:
        index = [row.split("\t")[0] for row in UNLABELLED[name][1]]
        assert (folder / "test.index").read_text().split() == index
        assert not (folder / "label" / "test.idx").exists()


def test_another_dictionary_in_place_of_one(vocabulary, tmp_path, refused):
    write_task(tmp_path / "glue", "RTE")
    folders, few = (tmp_path / "glue", tmp_path / "out"), tmp_path / "few.txt"
    builders.write_file(few, "".join(f"{i} 1\n" for i in range(40)))
    few = (*folders, "--dictionary", few, "--bpe", vocabulary)
    assert "train.tsv, line 2: " in refused(prepare_glue.main, *few)
    assert prepare(*few, "--allow-unknown") == prepare(*folders, "--data", vocabulary, "--overwrite") == 0


def rows_of(folder, name, split="train", skip_broken=False):
    return read_split(file_of(folder, TASKS[name], split), TASKS[name], split, skip_broken)


def test_a_score_that_is_no_number(tmp_path):
    place, row = write_task(tmp_path, "STS-B"), "0" + "\tx" * 8 + "\tnan"
    builders.write_file(place / "train.tsv", lines(LABELLED["STS-B"][0], ["", row]))
    with pytest.raises(ValueError, match="line 3: label 'nan'"):
        rows_of(place, "STS-B")


def test_broken_rows_of_a_training_set_are_skipped_on_demand(tmp_path):
    place, (header, rows) = write_task(tmp_path, "QQP"), LABELLED["QQP"]
    for name in ("train", "dev"):
        builders.write_file(place / f"{name}.tsv", lines(header, [rows[0], "9\tcut short", rows[1]]))
    with pytest.raises(UserError, match="line 3: label ''.*--skip-broken"):
        rows_of(place, "QQP")
    found, skipped = rows_of(place, "QQP", "train", True)
    assert found.index.tolist() == [2, 4] and skipped == [3]
    with pytest.raises(UserError, match="dev.tsv, line 3") as error:  # never of a set that is scored
        rows_of(place, "QQP", "valid", True)
    assert "--skip-broken" not in str(error.value)
