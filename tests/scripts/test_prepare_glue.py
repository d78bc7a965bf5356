"""GLUE's files as they are handed out: every task's columns and labels, and what is wrong with a file."""

import gzip
import json
from pathlib import Path

import prepare_glue
import pytest
from fairseq.data import Dictionary, data_utils
from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from recipes.corpora.bpe import Bpe, dictionary_of
from recipes.glue.files import GlueError, Report, file_of, read_split
from recipes.glue.tasks import TASKS, task_named

from tests.builders import GPT2, SHARED, write_gpt2

GLUE = SHARED / "glue"
QUOTED = ' "Yes , " he said .'  # MRPC's sentences have lone and paired quotation marks
# task -> (header of the labelled files, a row of each label), that of the test file, and what is in them
LABELLED = {
    "CoLA": (None, ["gj04\t1\t\tShe sings.", "gj04\t0\t*\tSings she the."]),
    "SST-2": ("sentence\tlabel", ["a fine film \t1", "a poor one \t0"]),
    "MRPC": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        [f"1\t10\t11\t{QUOTED}\tHe agreed .", '0\t12\t13\t" No .\tShe left .'],
    ),
    "STS-B": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        ["0\tg\tf\ty\t1\tn\tn\tA man.\tA person.\t4.250", "1\tg\tf\ty\t2\tn\tn\tA man.\tA cat.\t0.0"],
    ),
    "QQP": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        ["5\t1\t2\tWhy?\tWhy so?\t1", "7\t3\t4\tWho?\tHow?\t0"],
    ),
    "MNLI": (
        "index\tpairID\tsentence1\tsentence2\tlabel1\tgold_label",
        [f"{i}\tx\tIt is.\tIt is not.\tneutral\t{label}" for i, label in enumerate(TASKS["MNLI"].labels)],
    ),
    "QNLI": (
        "index\tquestion\tsentence\tlabel",
        ["0\tWhat?\tThat.\tentailment", "1\tWhat?\tNo.\tnot_entailment"],
    ),
    "RTE": (
        "index\tsentence1\tsentence2\tlabel",
        ["0\tA\u2028b.\tA.\tnot_entailment", "1\tC.\tC.\tentailment"],
    ),
}
UNLABELLED = {
    "CoLA": ("index\tsentence", ["0\tShe sings."]),
    "MRPC": ("index\t#1 ID\t#2 ID\t#1 String\t#2 String", ["0\t1\t2\tOne .\tTwo ."]),
    "RTE": ("index\tsentence1\tsentence2", ["17\tA.\tB.", "4\tC.\tD."]),
    "STS-B": ("index\tsentence1\tsentence2", ["0\tA.\tB."]),
}


def lines(header, rows) -> str:
    return "".join(f"{line}\n" for line in ([header] if header else []) + rows)


def write_task(folder: Path, name: str, packed: bool = False) -> Path:
    """GLUE's files of a toy version of a task."""
    task, place = TASKS[name], folder / name
    place.mkdir(parents=True)
    contents = {split: lines(*LABELLED[name]) for split in task.splits if not split.startswith("test")}
    if name in UNLABELLED:
        contents["test"] = lines(*UNLABELLED[name])
    for split, content in contents.items():
        path = place / f"{task.splits[split]}.tsv{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    return place


@pytest.fixture
def vocabulary(tmp_path) -> Path:
    """A folder with a BPE and its dict.txt, as prepare_text.py leaves them."""
    folder = write_gpt2(tmp_path / "data-bin", [("t", "h"), ("i", "n")])
    (folder / "dict.txt").write_text(dictionary_of(Bpe(folder)), encoding="utf-8")
    return folder


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
            assert (folder / "label" / f"{split}.label").read_text().split() == wanted
    if name in UNLABELLED:
        index = [row.split("\t")[0] for row in UNLABELLED[name][1]]
        assert (folder / "test.index").read_text().split() == index
        assert not (folder / "label" / "test.idx").exists()


def test_mrpc_as_it_was_first_handed_out(vocabulary, tmp_path):
    """One training file whose development pairs GLUE lists by their ids."""
    folder = tmp_path / "glue" / "MRPC"
    folder.mkdir(parents=True)
    header = LABELLED["MRPC"][0]
    rows = [f'{i % 2}\t{i}\t{i + 100}\tSentence {i} " .\tIt {i} .' for i in range(10)]
    (folder / "msr_paraphrase_train.txt").write_text(lines(header, rows), encoding="utf-8")
    (folder / "msr_paraphrase_test.txt").write_text(lines(header, rows[:2]), encoding="utf-8")
    with pytest.raises(GlueError, match="training and development sets together: put GLUE's list"):
        list(
            read_split(file_of(folder, TASKS["MRPC"], "train"), TASKS["MRPC"], "train", False, Report(folder))
        )
    (folder / "dev_ids.tsv").write_text("3\t103\n7\t107\n")
    assert prepare(tmp_path / "glue", tmp_path / "out", "--data", vocabulary) == 0
    summary = json.loads((tmp_path / "out" / "MRPC-bin" / "summary.json").read_text())
    assert {split: found["rows"] for split, found in summary.items()} == {"train": 8, "valid": 2, "test": 2}
    task = TASKS["MRPC"]
    valid = list(read_split(file_of(folder, task, "valid"), task, "valid", False, Report(folder)))
    assert [row.sentences[1] for row in valid] == ["It 3 .", "It 7 ."]
    assert [
        row.index for row in read_split(file_of(folder, task, "test"), task, "test", False, Report(folder))
    ]


def refused(capsys, *arguments) -> str:
    assert prepare(*arguments) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("RTE", "index\tsentence1\tlabel\n0\tA.\tentailment\n", "train.tsv, line 1: no column 'sentence2'"),
        (
            "RTE",
            lines("index\tsentence1\tsentence2\tlabel", ["0\tA\tB\tyes"]),
            "line 2: label 'yes', where RTE",
        ),
        ("RTE", lines("index\tsentence1\tsentence2\tlabel", ["0\tA\tB"]), "line 2: 3 columns, where .* 4"),
        ("RTE", "index\tsentence1\tsentence2\tlabel\n", "train.tsv has no rows"),
        ("CoLA", "gj04\t1\t\tShe.\ngj04\t2\t\tHe.\n", "line 2: label '2', where CoLA has 0, 1"),
        (
            "SST-2",
            'sentence\tlabel\n"a tab\there"\t1\n',
            "line 2: 3 columns.*written by something that quotes",
        ),
        ("SST-2", b"sentence\tlabel\nbad \xff\t1\n", "line 2: not UTF-8"),
        ("STS-B", lines(LABELLED["STS-B"][0], ["0" + "\tx" * 8 + "\t5.5"]), "line 2: score '5.5', .* 0 to 5"),
        ("STS-B", lines(LABELLED["STS-B"][0], ["0" + "\tx" * 8 + "\tnan"]), "line 2: score 'nan'"),
    ],
)
def test_a_bad_file_is_named_with_its_line(name, content, message, vocabulary, tmp_path, capsys):
    place = write_task(tmp_path / "glue", name)
    content = content if isinstance(content, bytes) else content.encode()
    (place / "train.tsv").write_bytes(content)
    import re

    error = refused(capsys, tmp_path / "glue", tmp_path / "out", "--data", vocabulary)
    assert re.search(message, error), error
    assert not (tmp_path / "out" / f"{name}-bin").exists()


def test_broken_training_rows_are_left_out_on_demand_and_listed(vocabulary, tmp_path, capsys):
    place = write_task(tmp_path / "glue", "QQP")
    header, rows = LABELLED["QQP"]
    (place / "train.tsv").write_text(lines(header, [rows[0], "9\tcut short", rows[1]]))
    asked = (tmp_path / "glue", tmp_path / "out", "--data", vocabulary)
    assert "line 3: 2 columns" in refused(capsys, *asked)
    assert prepare(*asked, "--skip-broken") == 0
    assert "left out as broken: 1 (lines 3)" in capsys.readouterr().out
    (place / "dev.tsv").write_text(lines(header, [rows[0], "9\tcut short", rows[1]]))
    error = refused(capsys, *asked, "--skip-broken")  # never of a set that is scored
    assert "dev.tsv, line 3" in error and "--skip-broken" not in error


def test_what_is_refused(vocabulary, tmp_path, capsys):
    glue, out = tmp_path / "glue", tmp_path / "out"
    write_task(glue, "RTE")
    assert "unknown task 'XNLI'" in refused(capsys, glue, out, "--data", vocabulary, "--tasks", "XNLI")
    assert "either --data DIR or --dict" in refused(capsys, glue, out)
    assert "--dict needs --bpe" in refused(capsys, glue, out, "--dict", vocabulary / "dict.txt")
    assert "no folder of a task" in refused(capsys, vocabulary, out, "--data", vocabulary)
    assert "has no train.tsv" in refused(capsys, glue, out, "--data", vocabulary, "--tasks", "CoLA")
    other = write_gpt2(tmp_path / "other", [("q", "u")])
    error = refused(capsys, glue, out, "--dict", vocabulary / "dict.txt", "--bpe", other)
    assert "is no token of" in error and "give the BPE that the dictionary was made with" in error
    # as large, with ids in another order: only the files themselves tell
    swapped = write_gpt2(tmp_path / "swapped", [("i", "n"), ("t", "h")])
    error = refused(capsys, glue, out, "--data", vocabulary, "--bpe", swapped)
    assert "is not the BPE that" in error and "leave --bpe out" in error
    assert prepare(glue, out, "--data", vocabulary, "--bpe", vocabulary, "--tasks", "RTE") == 0
    capsys.readouterr()
    (tmp_path / "few.txt").write_text("".join(f"{i} 1\n" for i in range(40)))
    asked = (glue, out, "--dict", tmp_path / "few.txt", "--bpe", vocabulary)
    assert "train.tsv, line 2: " in (error := refused(capsys, *asked)) and "does not know the token" in error
    assert prepare(*asked, "--allow-unknown") == 0
    assert "became <unk>" in capsys.readouterr().out


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


# rows of shared/data/glue, counted line by line
ROWS = {
    "CoLA": (8551, 1043, 1063),
    "SST-2": (67349, 872, 1821),
    "MRPC": (3668, 408, 1725),
    "STS-B": (5749, 1500, 1379),
    "QQP": (7999, 1000, None),
    "MNLI": (18665, 6238, None),
    "QNLI": (8999, 5463, 5463),
    "RTE": (2490, 277, 3000),
}


@pytest.mark.skipif(not GLUE.is_dir(), reason=f"needs GLUE in {GLUE}")
@pytest.mark.parametrize("name", ROWS)
def test_the_real_files(name):
    task = task_named(name.lower())
    assert task.name == name
    for split, rows in zip(("train", "valid", "test"), ROWS[name], strict=True):
        path = file_of(GLUE / name, task, split)
        assert (path is None) == (rows is None)
        if path is not None:
            found = list(read_split(path, task, split, False, Report(path)))
            assert len(found) == rows
            assert all(sentence for row in found for sentence in row.sentences)
            assert rows <= task.official[split]


@pytest.mark.skipif(not GLUE.is_dir() or not GPT2.is_dir(), reason=f"needs GLUE in {GLUE}")
def test_real_sentences_have_fairseqs_tokens(tmp_path):
    arguments = ("--dict", GPT2 / "dict.txt", "--bpe", GPT2, "--tasks", "MRPC")
    assert prepare(GLUE, tmp_path, *arguments) == 0
    oracle = get_encoder(str(GPT2 / "encoder.json"), str(GPT2 / "vocab.bpe"))
    dictionary = Dictionary.load(str(GPT2 / "dict.txt"))
    with gzip.open(GLUE / "MRPC" / "dev.tsv.gz", "rt", encoding="utf-8-sig") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    for i, column in ((0, 3), (1, 4)):
        dataset = data_utils.load_indexed_dataset(str(tmp_path / f"MRPC-bin/input{i}/valid"), dictionary)
        for item, row in zip(dataset, rows, strict=True):
            wanted = [dictionary.index(str(j)) for j in oracle.encode(row[column].strip())]
            assert item.tolist() == [*wanted, dictionary.eos()]
