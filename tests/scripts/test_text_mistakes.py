"""What goes wrong in preparing text: each mistake has one line that says what to do, and costs no more."""

import csv
import errno
import json
import os

import pytest
import train_bpe
from recipes.corpora import binarise
from recipes.corpora.bpe import Bpe, dictionary_of, find_files

from tests.builders import write_gpt2
from tests.scripts.test_prepare_text import (
    bpe,  # noqa: F401
    expected,
    paragraphs_text,
    prepare,
    refusal,
    sentences,
    write,
)


@pytest.fixture
def asked(bpe, tmp_path):  # noqa: F811
    source, valid = write(tmp_path / "a.txt", paragraphs_text()), write(tmp_path / "v.txt", "v\n")
    return (tmp_path / "out", "--bpe", bpe, "--train", source, "--valid", valid, "--workers", 1)


def test_a_second_run_with_another_bpe_changes_nothing(asked, bpe, tmp_path, monkeypatch):  # noqa: F811
    """The dictionary of the first run, which is made of its BPE, is not the second's."""
    other = write_gpt2(tmp_path / "other", [("q", "u")])
    merge = binarise._merge_all

    def interfered(*arguments):
        assert "another run is at work" in refusal(asked[0], "--bpe", other, *asked[3:])
        return merge(*arguments)

    monkeypatch.setattr(binarise, "_merge_all", interfered)
    prepare(asked[0], bpe, *asked[3:])
    assert (asked[0] / "dict.txt").read_text() == dictionary_of(Bpe(bpe))
    assert sentences(asked[0], "train", bpe) == expected()


def test_a_refused_folder_is_left_as_it_was(asked, tmp_path):
    write(tmp_path / "out" / "dict.txt", "a 1\n")
    assert "this program did not make" in refusal(*asked)
    assert {path.name for path in asked[0].iterdir()} == {"dict.txt", ".lock"}


def test_a_bpe_of_any_name_is_found_again(tmp_path):
    source, valid = write(tmp_path / "a.txt", paragraphs_text()), write(tmp_path / "v.txt", "v\n")
    train_bpe.main([str(a) for a in (tmp_path / "bpe", source, "--vocabulary", 320)])
    (tmp_path / "bpe" / "tokenizer.json").rename(tmp_path / "mine.json")
    out = prepare(tmp_path / "out", tmp_path / "mine.json", "--train", source, "--valid", valid)
    assert find_files(out)[0].read_bytes() == (tmp_path / "mine.json").read_bytes()


def test_half_a_character_in_json(bpe, tmp_path):  # noqa: F811
    source = write(tmp_path / "j", '{"text": "in \\ud83d the\\nthe inn"}\n{"text": "thin \\ud83d\\ude00"}\n')
    valid = write(tmp_path / "v.txt", "v\n")
    out = prepare(tmp_path / "out", bpe, "--train", source, "--valid", valid)
    assert sentences(out, "train", bpe) == ["the inn", "", "thin 😀", ""]
    with (out / "rejected.tsv").open(newline="") as file:
        [row] = list(csv.reader(file, dialect="excel-tab"))[1:]
    assert row[1:3] == ["1", "half a character: \\ud83d without its other half"]
    assert json.loads((out / "prepared.json").read_text())["result"]["rejected"] == {"half a character": 1}


def test_files_that_are_no_text(asked, bpe, tmp_path):  # noqa: F811
    broken = write(tmp_path / "broken", b"\xff\xfe 1\n")
    assert f"{broken} is not a dict.txt of fairseq: invalid UTF-8" in refusal(*asked, "--dictionary", broken)
    (bpe / "vocab.bpe").write_bytes(b"\xff\xfe")
    assert "vocab.bpe, line 1: invalid UTF-8" in refusal(*asked)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EFBIG, errno.EACCES])
def test_what_the_system_refuses(code, asked, monkeypatch):
    def refused(descriptor):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refused)
    message = refusal(*asked)
    assert (
        os.strerror(code) in message
        and "settings.json" in message
        and "give the same command again" in message
    )


def test_folders_that_cannot_be_made(asked, tmp_path):
    file = write(tmp_path / "file", "x")
    assert f"cannot make the folder {file}" in refusal(file, *asked[1:])
    with pytest.raises(SystemExit, match=f"error: {file}: File exists"):
        train_bpe.main([str(file), str(asked[4])])
    with pytest.raises(SystemExit, match="give --vocabulary 300 or more, and --megabytes above 0"):
        train_bpe.main([str(tmp_path / "b"), str(asked[4]), "--megabytes", "nan"])


def test_a_damaged_record_of_what_was_made(asked):
    prepare(asked[0], asked[2], *asked[3:])
    (asked[0] / "prepared.json").write_text("{")
    assert "prepared.json is damaged" in refusal(*asked)
    prepare(asked[0], asked[2], *asked[3:], "--overwrite")
    assert sentences(asked[0], "train", asked[2]) == expected()


def test_begun_anew_leaves_no_shard_of_before(asked):
    prepare(asked[0], asked[2], *asked[3:], "--shards", 3)
    prepare(asked[0], asked[2], *asked[3:], "--shards", 2, "--overwrite")
    assert sorted(path.parent.name for path in asked[0].glob("*/train.bin")) == ["shard0", "shard1"]


def test_an_empty_split_says_what_to_do(asked):
    message = refusal(*asked[:5], "--valid-share", 1e-9, "--workers", 1)
    assert "nothing is left for valid" in message and "another --valid or --valid-share" in message
