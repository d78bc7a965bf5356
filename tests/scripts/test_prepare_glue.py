"""GLUE's files as they are handed out: every task's columns and labels, and what is wrong with a file."""

import contextlib
import gzip
import json

import prepare_glue
import pytest
from fairseq.data import Dictionary, data_utils
from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from hypothesis import given, settings
from hypothesis import strategies as st
from lib.command_line import UserError
from lib.data.glue import files_of, read_split
from lib.data.glue_tasks import TASKS
from pyarrow import parquet

from tests.support.builders import write_file
from tests.support.glue import LABELLED, UNLABELLED, lines, write_hub, write_task


def prepare(*arguments) -> int:
    return prepare_glue.main([str(a) for a in arguments])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_every_task(name, packed, vocabulary, tmp_path):
    task = TASKS[name]
    write_task(tmp_path / "glue", name, packed)
    assert prepare(tmp_path / "glue", tmp_path / "out", "--data", vocabulary) == 0
    folder = tmp_path / "out" / f"{name}-bin"
    dictionary = Dictionary.load(str(folder / "input0" / "dict.txt"))
    codec = get_encoder(str(vocabulary / "encoder.json"), str(vocabulary / "vocab.bpe"))
    header, rows = LABELLED[name]
    columns = (header.lstrip("\ufeff") if header else "source\tlabel\tmark\tsentence").split("\t")
    for split in task.valid_splits + ("train",):
        for i, column in enumerate(task.sentences):
            dataset = data_utils.load_indexed_dataset(str(folder / f"input{i}" / split), dictionary)
            found = [codec.decode([int(dictionary[j]) for j in item[:-1]]) for item in dataset]
            assert found == [row.split("\t")[columns.index(column)].strip() for row in rows]
        assert (folder / "input1").exists() == (len(task.sentences) == 2)
        wanted = [row.split("\t")[columns.index(task.label)] for row in rows]
        if task.labels:
            labels = Dictionary.load(str(folder / "label" / "dict.txt"))
            assert labels.symbols[labels.nspecial :] == list(task.labels)
            dataset = data_utils.load_indexed_dataset(str(folder / "label" / split), labels)
            assert [labels[int(item[0])] for item in dataset] == wanted
        else:
            assert [float(y) for y in (folder / "label" / f"{split}.label").read_text().split()] == [
                4.25,
                0.0,
            ]
    if name in UNLABELLED:
        index = [row.split("\t")[0] for row in UNLABELLED[name][1]]
        assert (folder / "test.index").read_text().split() == index
        assert not (folder / "label" / "test.idx").exists()


@pytest.fixture
def asked(vocabulary, tmp_path):
    write_task(tmp_path / "glue", "RTE")
    return tmp_path / "glue", tmp_path / "out", "--data", vocabulary


@pytest.fixture
def refusal(refused):
    return lambda *arguments: refused(prepare_glue.main, *arguments)


def test_what_is_refused(asked, tmp_path, refusal, capsys):
    glue, out, _, vocabulary = asked
    dictionary = ("--dictionary", vocabulary / "dict.txt")
    assert "unknown task 'XNLI'" in refusal(*asked, "--tasks", "XNLI")
    assert "one of the arguments --data --dictionary is required" in refusal(glue, out)
    assert "--dictionary needs --bpe" in refusal(glue, out, *dictionary)
    assert "no folder of a task" in refusal(vocabulary, *asked[1:])
    assert "folder none does not exist" in refusal("none", *asked[1:])
    assert "has no train.tsv, plain or .gz, or Parquet" in refusal(*asked, "--tasks", "CoLA")
    assert "--data has both" in refusal(*asked, "--bpe", vocabulary)
    few = write_file(tmp_path / "few.txt", "".join(f"{i} 1\n" for i in range(40)))
    few = (glue, out, "--dictionary", few, "--bpe", vocabulary)
    assert "train.tsv, line 2: " in (message := refusal(*few)) and "has no token" in message
    assert prepare(*few, "--allow-unknown") == 0
    assert "became <unk>" in capsys.readouterr().out


def test_a_task_is_complete_or_absent(asked, refusal):
    path = asked[0] / "RTE" / "dev.tsv"
    content = path.read_bytes()
    path.write_bytes(gzip.compress(content)[:-9])
    assert "damaged or truncated gzip" in refusal(*asked)
    assert list(asked[1].iterdir()) == []
    path.write_bytes(content)
    assert prepare(*asked) == 0
    assert "RTE-bin exists already: " in refusal(*asked)
    assert prepare(*asked, "--overwrite") == 0
    assert sorted(path.name for path in asked[1].iterdir()) == ["RTE-bin"]


def test_a_sample_of_the_training_rows(vocabulary, tmp_path):
    place = write_task(tmp_path / "glue", "SST-2")
    rows = [f"sentence {i} \t{i % 2}" for i in range(50)]
    (place / "train.tsv").write_text(lines("sentence\tlabel", rows))
    kept = []
    for out in ("a", "b"):
        assert prepare(tmp_path / "glue", tmp_path / out, "--data", vocabulary, "--train-rows", 20) == 0
        kept.append((tmp_path / out / "SST-2-bin" / "input0" / "train.bin").read_bytes())
        summary = json.loads((tmp_path / out / "SST-2-bin" / "summary.json").read_text())
        assert (summary["train"]["rows"], summary["train"]["kept"], summary["valid"]["kept"]) == (50, 20, 2)
    assert kept[0] == kept[1]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("name", TASKS)
def test_parquet_of_the_hub_gives_what_tsv_gives(name, named, vocabulary, tmp_path):
    write_task(tmp_path / "glue", name)
    write_hub(tmp_path / "hub", name, named)
    for source in ("glue", "hub"):
        assert prepare(tmp_path / source, tmp_path / f"{source}-bin", "--data", vocabulary) == 0
    for path in (tmp_path / "glue-bin").rglob("*"):
        if path.is_file() and path.name != "summary.json":  # which names the files
            other = tmp_path / "hub-bin" / path.relative_to(tmp_path / "glue-bin")
            assert path.read_bytes() == other.read_bytes(), path


def test_parquet_that_is_refused(asked, vocabulary, refusal, tmp_path):
    place = write_hub(tmp_path / "hub", "CoLA")
    asked = (tmp_path / "hub", *asked[1:])
    table = parquet.read_table(place / "validation-00000-of-00001.parquet")

    def says(**columns):
        for column, values in columns.items():
            changed = table.set_column(table.schema.get_field_index(column), column, [values])
        parquet.write_table(changed, place / "validation-00000-of-00001.parquet")
        return refusal(*asked)

    assert "row 2: label 'odd'" in says(label=["acceptable", "odd"])
    assert "row 1: label -1, but CoLA has 0, 1" in says(label=[-1, 0])
    parquet.write_table(table.drop_columns("sentence"), place / "validation-00000-of-00001.parquet")
    assert "needs a column 'sentence'; the columns are label, idx" in refusal(*asked)
    (place / "train-00000-of-00002.parquet").unlink()
    assert "download the others" in refusal(*asked)


def rows_of(folder, name, split="train", skip_broken=False):
    rows = read_split(files_of(folder, TASKS[name], split), TASKS[name], split, skip_broken)
    return rows.table, rows.skipped


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "RTE",
            "index\tsentence1\tlabel\n0\tA.\tentailment\n",
            "train.tsv: RTE needs a column 'sentence2'",
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


LINE = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"))


@settings(deadline=None)
@given(
    st.lists(st.tuples(LINE, LINE, st.sampled_from(TASKS["RTE"].labels)), min_size=1), st.binary(max_size=30)
)
def test_rows_come_back_and_no_bytes_end_in_a_traceback(tmp_path_factory, rows, junk):
    place = tmp_path_factory.getbasetemp() / "train.tsv"
    content = lines("sentence1\tsentence2\tlabel", ["\t".join(row) for row in rows]).encode()
    found, _ = rows_of(write_file(place, content).parent, "RTE")
    assert found.values.tolist() == [[a.strip(), b.strip(), label] for a, b, label in rows]
    for changed in (junk, content + junk, content[: len(junk)] + junk):
        write_file(place, changed)
        with contextlib.suppress(UserError):
            rows_of(place.parent, "RTE", skip_broken=len(junk) % 2 == 0)
