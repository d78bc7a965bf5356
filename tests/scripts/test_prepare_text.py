"""Text in all layouts becomes the same paragraphs, and nothing is lost."""

import bz2
import csv
import gzip
import json
import lzma
from pathlib import Path

import prepare_text
import pytest
from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

from tests.support import builders
from tests.support.builders import CORPUS, corpus_sentences, json_text, paragraphs_text, write_file


@pytest.fixture
def sentences(bpe, tmp_path):
    """sentences(split, out) -> the text of each, "" if empty, by fairseq's own reader and BPE."""
    codec = get_encoder(str(bpe / "encoder.json"), str(bpe / "vocab.bpe"))

    def read(split: str, out: str = "out") -> list[str]:
        return [codec.decode(list(map(int, ids))) for ids in builders.read_split(tmp_path / out, split)]

    return read


@pytest.fixture
def prepare(bpe, tmp_path, sentences):
    """prepare(TRAIN..., flags) -> the sentences of train, and prepared.json; valid is a line, or a share."""

    def call(*train, flags=(), out="out") -> tuple[list[str], dict]:
        valid = () if "--valid-share" in flags else ("--valid", write_file(tmp_path / "v.txt", "v\n"))
        words = (tmp_path / out, "--bpe", bpe, "--workers", 1, "--train", *train, *valid, *flags)
        assert prepare_text.main(list(map(str, words))) == 0
        return sentences("train", out), json.loads((tmp_path / out / "prepared.json").read_text())

    return call


def write_corpus(folder: Path, layout: str, compress) -> list[Path]:
    """CORPUS in a layout, as Windows writes text; the files, in a folder of their own, by names that tell
    nothing."""
    contents = {"paragraphs": [paragraphs_text()], "json": [json_text()]}
    wrapped = [[one.replace(" ", "\n", 1) for one in paragraphs] for paragraphs in CORPUS.values()]
    contents["books"] = ["\n\n".join(paragraphs) for paragraphs in wrapped]
    for i, text in enumerate(contents[layout]):
        write_file(folder / f"{i}", compress(f"\ufeff{text}\n".replace("\n", "\r\n").encode()))
    return sorted(folder.iterdir())


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("layout", ["paragraphs", "books", "json"])
def test_every_layout_in_a_folder_and_named(layout, compress, prepare, tmp_path, capsys):
    files = write_corpus(tmp_path / "corpus", layout, compress)
    write_file(tmp_path / "corpus" / ".hidden", "no book")
    (tmp_path / "linked").mkdir()
    for name in ("to", "again"):
        (tmp_path / "linked" / name).symlink_to(tmp_path / "corpus")
    plain = ("--layout", "books") if layout == "books" else ()
    for out, sources in (("a", files), ("b", [tmp_path / "linked"])):
        found, result = prepare(*sources, flags=plain, out=out)
        assert found == corpus_sentences()
        assert result["documents"] == len(CORPUS) + 1 and result["paragraphs"] == 2 * len(CORPUS) + 1
        assert result["rejected"] == {}
    assert f" as {layout}\n" in capsys.readouterr().out


def test_the_split_is_by_document_and_by_its_content_only(prepare, sentences, tmp_path):
    many = [[f"Document {i} begins.", f"It ends in {i * i}."] for i in range(400)]
    splits = []
    for out, documents in (("a", many), ("b", many[::-1])):
        source = write_file(tmp_path / f"{out}.txt", "\n\n".join("\n".join(d) for d in documents))
        train, _ = prepare(source, flags=("--valid-share", 0.1), out=out)
        valid = sentences("valid", out)
        assert sorted(valid + train) == sorted(line for d in many for line in [*d, ""])
        assert 20 <= len(valid) // 3 <= 60  # of 400, 10%
        for found in (valid, train):
            for first, second, end in zip(found[::3], found[1::3], found[2::3], strict=True):
                assert end == "" and second == f"It ends in {int(first.split()[1]) ** 2}."
        splits.append(set(valid))
    assert splits[0] == splits[1]
    prepare(source, flags=("--valid-share", 1e-9), out="c")
    assert len(sentences("valid", "c")) == 3  # a document at least
    ends = (f"All begin so.\nHere it is {i}.\nAnd so it ends." for i in range(60))
    prepare(write_file(tmp_path / "d.txt", "\n\n".join(ends)), flags=("--valid-share", 0.5), out="d")
    assert 15 <= len(sentences("valid", "d")) / 4 <= 45  # by all of a document


ODD_JSON = '{"text": 3}\n{"title": "x"}\n{"text": "cut sh\n{"text": ""}\n'
ODD_JSON += '[1]\n{"text": "in \\ud83d the\\nthin \\ud83d\\ude00"}\n'


def test_what_cannot_be_read_is_listed_and_costs_nothing_else(prepare, tmp_path):
    lines = b"good line\nbad \xff\xfe line\nanother good line\n\n \n\n\x07\n\nend\n"
    contents = {"plain.txt": lines, "j": json_text() + ODD_JSON}
    found, result = prepare(*(write_file(tmp_path / name, content) for name, content in contents.items()))
    first, last = ["good line", "another good line", "", "end", ""], ["in the", "thin 😀", ""]
    assert found == [*first, *corpus_sentences(), *last]
    with (tmp_path / "out" / "rejected.tsv").open(newline="") as file:
        rows = list(csv.reader(file, dialect="excel-tab"))[1:]
    places = [("plain.txt", 2), *(("j", len(CORPUS) + i) for i in (1, 2, 3, 5))]
    assert [(Path(path).name, int(line)) for path, line, *_ in rows] == places


def test_what_is_no_text(bpe, tmp_path, refused):
    packed = write_file(tmp_path / "a.tar.gz", b"a.txt\0")
    assert str(packed) in refused(prepare_text.main, tmp_path / "out", "--bpe", bpe, "--train", packed)
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("limit", [1, 10])
def test_long_paragraphs_are_split_and_nothing_is_lost(limit, prepare, tmp_path):
    texts = ["q" * n for n in (1, 9, 10, 11, 20, 21)]  # a token each
    source = write_file(tmp_path / "a.txt", "\n".join(texts) + "\n")
    found, _ = prepare(source, flags=("--max-tokens", limit))
    assert found == [*(t[i : i + limit] for t in texts for i in range(0, len(t), limit)), ""]


def test_cleaning_loses_no_word(prepare, tmp_path):
    """Lines are paragraphs; one without or with ASCII's blanks alone ends a document."""
    odd = "  two \t blanks\u00a0and\u2003more soft\u00adhyphen \ufeffmark bell\x07 zero\u200bwidth क्\u200dष"
    found, _ = prepare(write_file(tmp_path / "a", f"a\x1cb\x85c\n\x1c\nd\n \t\r\v\f\n{odd}\r\n"))
    clean = "two blanks and more softhyphen mark bell zerowidth क्\u200dष"
    assert found == ["a b c", "d", "", clean, ""]
