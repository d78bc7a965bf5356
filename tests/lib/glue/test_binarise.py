"""GLUE's files row by row, and what is wrong with them."""

import pytest
from lib.command_line import UserError
from lib.glue.tasks import TASKS
from prepare_glue import file_of, read_split

from tests.builders import write_file
from tests.makers.glue import LABELLED, lines, write_task


def rows_of(folder, name, split="train", skip_broken=False):
    return read_split(file_of(folder, TASKS[name], split), TASKS[name], split, skip_broken)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "RTE",
            "index\tsentence1\tlabel\n0\tA.\tentailment\n",
            "train.tsv, line 1: RTE needs a column 'sentence2'",
        ),
        (
            "RTE",
            lines("index\tsentence1\tsentence2\tlabel", ["0\tA\tB\tyes"]),
            "line 2: label 'yes', but RTE has entailment, not_",
        ),
        ("RTE", lines("index\tsentence1\tsentence2\tlabel", ["0\tA\tB"]), "line 2: 3 columns, expected 4"),
        ("RTE", "index\tsentence1\tsentence2\tlabel\n", "train.tsv has no rows"),
        ("CoLA", "gj04\t1\t\tShe.\ngj04\t2\t\tHe.\n", "line 2: label '2', but CoLA has 0, 1"),
        (
            "SST-2",
            'sentence\tlabel\n"a tab\there"\t1\n',
            "line 2: 3 columns.*GLUE's files are not quoted",
        ),
        ("SST-2", b"sentence\tlabel\nbad \xff\t1\n", "line 2: invalid UTF-8"),
        ("STS-B", lines(LABELLED["STS-B"][0], ["0" + "\tx" * 8 + "\t5.5"]), "line 2: label '5.5', .* 0 to 5"),
        ("STS-B", lines(LABELLED["STS-B"][0], ["0" + "\tx" * 8 + "\tnan"]), "line 2: label 'nan'"),
    ],
)
def test_a_bad_file_is_named_with_its_line(name, content, message, tmp_path):
    place = write_task(tmp_path, name)
    write_file(place / "train.tsv", content)
    with pytest.raises(UserError, match=message):
        rows_of(place, name)


def test_broken_rows_of_a_training_set_are_skipped_on_demand(tmp_path):
    place, (header, rows) = write_task(tmp_path, "QQP"), LABELLED["QQP"]
    for name in ("train", "dev"):
        write_file(place / f"{name}.tsv", lines(header, [rows[0], "9\tcut short", rows[1]]))
    with pytest.raises(UserError, match=r"line 3: 2 columns.*\(or skip such rows: --skip-broken\)"):
        rows_of(place, "QQP")
    found, skipped = rows_of(place, "QQP", "train", True)
    assert found.index.tolist() == [2, 4] and skipped == [3]
    with pytest.raises(UserError, match="dev.tsv, line 3") as error:  # never of a set that is scored
        rows_of(place, "QQP", "valid", True)
    assert "--skip-broken" not in str(error.value)
