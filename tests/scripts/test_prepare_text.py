"""Text in all layouts becomes the same paragraphs; nothing is lost, and an interruption leaves no trace."""

import csv
import json
from functools import partial
from pathlib import Path

import pandas
import prepare_text
import pytest
from fairseq.data import Dictionary, data_utils
from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from lib.data import binarise
from lib.data import text as corpus

from tests.support.builders import (
    CORPUS,
    corpus_sentences,
    json_text,
    paragraphs_text,
    wiki_text,
    write_file,
)

SEPARATORS = {"csv": ",", "tsv": "\t"}


def prepare(output, bpe, *arguments) -> Path:
    assert prepare_text.main([str(a) for a in (output, "--bpe", bpe, "--workers", 1, *arguments)]) == 0
    return output


def sentences(folder: Path, split: str, bpe: Path) -> list[str]:
    """The text of each sentence of a split by fairseq's own reader and BPE; "" for an empty one."""
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    codec = get_encoder(str(bpe / "encoder.json"), str(bpe / "vocab.bpe"))
    dataset = data_utils.load_indexed_dataset(str(folder / split), dictionary)
    found = []
    for i in range(len(dataset)):
        ids = dataset[i].tolist()
        assert ids[-1] == dictionary.eos() and dictionary.eos() not in ids[:-1]
        found.append(codec.decode([int(dictionary[j]) for j in ids[:-1]]))
    return found


def write_corpus(folder: Path, layout: str, ending: str) -> list[Path]:
    """CORPUS in a layout; the files, in a folder of their own."""
    if layout == "books":
        for i, paragraphs in enumerate(CORPUS.values()):
            wrapped = [paragraph.replace(" ", "\n", 1) for paragraph in paragraphs]
            write_file(folder / f"{i}.txt{ending}", "\n\n".join(wrapped) + "\n")
    elif layout in ("csv", "tsv", "parquet"):
        table = pandas.DataFrame([json.loads(line) for line in json_text().splitlines()])
        path = folder / f"part.{layout}{ending}"
        folder.mkdir()
        write = table.to_parquet if layout == "parquet" else partial(table.to_csv, sep=SEPARATORS[layout])
        write(path, index=False)
    else:
        content = {"paragraphs": paragraphs_text, "wikiextractor": wiki_text, "json": json_text}[layout]()
        write_file(folder / f"part{ending}", content)
    return sorted(folder.iterdir())


@pytest.mark.parametrize("layout", ["paragraphs", "books", "wikiextractor", "json", "csv", "tsv", "parquet"])
def test_every_layout_in_a_folder_and_named(layout, bpe, tmp_path, capsys):
    valid = write_file(tmp_path / "valid.txt", "a line\n")
    files = write_corpus(tmp_path / "corpus", layout, "" if layout == "parquet" else ".gz")
    write_file(tmp_path / "corpus" / ".hidden", "no book")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "to").symlink_to(tmp_path / "corpus")
    (tmp_path / "corpus" / "loop").symlink_to(tmp_path / "linked")
    plain = ["--layout", "books"] if layout == "books" else []
    for name, given in (("a", [tmp_path / "corpus"]), ("b", files), ("c", [tmp_path / "linked"])):
        output = prepare(tmp_path / name, bpe, "--train", *given, "--valid", valid, *plain)
        assert sentences(output, "train", bpe) == corpus_sentences()
        result = json.loads((output / "prepared.json").read_text())
        assert result["documents"] == len(CORPUS) + 1 and result["paragraphs"] == 2 * len(CORPUS) + 1
        assert result["rejected"] == {} and result["empty documents"] == 0
    layout = {"csv": "table", "tsv": "table"}.get(layout, layout)
    documents = len(CORPUS) + (layout in ("paragraphs", "books"))
    assert f" as {layout}: {documents} documents" in capsys.readouterr().out


def test_the_split_is_the_same_in_every_format(bpe, tmp_path):
    outputs = []
    for layout in ("json", "csv", "parquet"):
        [path] = write_corpus(tmp_path / layout, layout, "")
        output = prepare(tmp_path / f"{layout}-out", bpe, "--train", path, "--valid-share", 0.5)
        outputs.append(
            {name: (output / name).read_bytes() for name in ("train.bin", "valid.bin", "train.idx")}
        )
    assert outputs[0] == outputs[1] == outputs[2]


def test_the_split_is_by_document_and_by_its_content_only(bpe, tmp_path):
    many = [[f"Document {i} begins.", f"It ends in {i * i}."] for i in range(400)]

    def corpus(name, chosen):
        return write_file(tmp_path / name, "\n\n".join("\n".join(d) for d in chosen))

    first = prepare(tmp_path / "a", bpe, "--train", corpus("a.txt", many), "--valid-share", 0.1)
    valid = sentences(first, "valid", bpe)
    train = sentences(first, "train", bpe)
    assert sorted(valid + train) == sorted(line for d in many for line in [*d, ""])
    assert 20 <= len(valid) // 3 <= 60  # of 400, 10%
    for found in (valid, train):
        for i in range(0, len(found), 3):
            first, second, end = found[i : i + 3]
            assert end == "" and second == f"It ends in {int(first.split()[1]) ** 2}."
    other = corpus("b.txt", many[::-1])
    second = prepare(tmp_path / "b", bpe, "--train", other, "--valid-share", 0.1)
    assert set(sentences(second, "valid", bpe)) == set(valid)


def test_a_document_longer_than_a_block(bpe, tmp_path, monkeypatch):
    """The longest are cut."""
    monkeypatch.setattr(corpus, "MOST_BYTES", 600)
    monkeypatch.setattr(binarise, "BLOCK_BYTES", 150)
    long = [f"Line {i} of the long one." for i in range(50)]
    source = write_file(tmp_path / "a.txt", "short one\n\n" + "\n".join(long) + "\n\nlast one\n")
    output = prepare(tmp_path / "out", bpe, "--train", source, "--valid", write_file(tmp_path / "v", "v"))
    assert sentences(output, "train", bpe) == [
        "short one",
        "",
        *long[:26],
        "",
        *long[26:],
        "",
        "last one",
        "",
    ]


def test_what_cannot_be_read_is_listed_and_costs_nothing_else(bpe, tmp_path):
    broken = wiki_text() + "stray line\n<doc id='9' title=\"Cut\">\nCut\n\nThe last words.\n"
    wiki = write_file(tmp_path / "wiki", broken)
    lines = b"good line\nbad \xff\xfe line\nanother good line\n\n \n\n\x07\n\nend\n"
    plain = write_file(tmp_path / "plain.txt", lines)
    jsonl = write_file(
        tmp_path / "j",
        json_text() + '{"text": 3}\n{"title": "x"}\n{"text": "cut sh\n{"text": ""}\n'
        '{"text": "in \\ud83d the\\nthin \\ud83d\\ude00"}\n',
    )
    output = prepare(
        tmp_path / "out", bpe, "--train", wiki, plain, jsonl, "--valid", write_file(tmp_path / "v", "v")
    )
    found = sentences(output, "train", bpe)
    rest = ["The last words.", "", "good line", "another good line", "", "end", ""]
    assert found == [*corpus_sentences(), *rest, *corpus_sentences(), "thin 😀", ""]
    with (output / "rejected.tsv").open(newline="") as file:
        rows = list(csv.reader(file, dialect="excel-tab"))[1:]
    where = wiki_text().count("\n")
    assert [(Path(row[0]).name, row[1]) for row in rows] == [
        ("wiki", str(where + 1)),
        ("wiki", str(where + 2)),
        ("plain.txt", "2"),
        *(("j", str(len(CORPUS) + i)) for i in (1, 2, 3, 5)),
    ]
    reasons = [row[2] for row in rows]
    assert reasons[0] == "outside <doc> and </doc>" and reasons[1].startswith("the file ends without")
    assert reasons[2] == "invalid UTF-8: invalid start byte at byte 4"
    assert '"text" is not a string' in reasons[3] and 'no "text"' in reasons[4] and "Untermin" in reasons[5]
    assert reasons[6] == "half a character: \\ud83d without its other half"
    result = json.loads((output / "prepared.json").read_text())
    assert (result["empty paragraphs"], result["empty documents"]) == (1, 5)


def test_empty_files_of_a_folder_are_empty_documents(bpe, tmp_path):
    books = tmp_path / "books"
    for name, text in (("a", "The book.\n"), ("b", ""), ("c", " \n\n"), ("d", "")):
        write_file(books / f"{name}.txt", text)
    output = prepare(tmp_path / "out", bpe, "--train", books, "--valid", write_file(tmp_path / "v", "v"))
    assert sentences(output, "train", bpe) == ["The book.", ""]
    result = json.loads((output / "prepared.json").read_text())
    assert (result["documents"], result["empty documents"]) == (2, 3)


def test_what_is_refused(bpe, tmp_path, refused):
    source, out = write_file(tmp_path / "a.txt", "in the inn\n\nthe thin thing\n"), tmp_path / "out"
    (tmp_path / "empty").mkdir()

    def says(*flags, train=source, output=out) -> str:
        return refused(prepare_text.main, output, "--bpe", bpe, "--workers", 1, "--train", train, *flags)

    assert "none does not exist" in says(train=tmp_path / "none")
    assert "has no files" in says(train=tmp_path / "empty")
    assert "nothing is left for train" in says(train=write_file(tmp_path / "e.txt", " \n\n"))
    assert "no column 'text'" in says(train=write_file(tmp_path / "a.csv", "a,b\n1,2\n"))
    assert "given more than once" in says("--valid", source)
    assert "does not support ':'" in says(output=tmp_path / "a:b")
    few = write_file(tmp_path / "few.txt", "".join(f"{i} 1\n" for i in range(256)))
    assert f"{source}, line 1: {few} has no token '25" in says("--dictionary", few)
    assert not out.exists()


@pytest.mark.parametrize("limit", [1, 10])
def test_long_paragraphs_are_split_and_nothing_is_lost(limit, bpe, tmp_path):
    texts = ["q" * n for n in (1, 9, 10, 11, 20, 21)]  # a token each
    source = write_file(tmp_path / "a.txt", "\n".join(texts) + "\n")
    valid = write_file(tmp_path / "v.txt", "v\n")
    out = prepare(tmp_path / "out", bpe, "--train", source, "--valid", valid, "--max-tokens", limit)
    wanted = [t[i : i + limit] for t in texts for i in range(0, len(t), limit)]
    assert sentences(out, "train", bpe) == [*wanted, ""]
    result = json.loads((out / "prepared.json").read_text())
    assert result["paragraphs cut"] == sum(len(t) > limit for t in texts)


def test_a_share_too_small_for_a_document_takes_one(bpe, tmp_path, refused):
    source = write_file(tmp_path / "a.txt", paragraphs_text())
    output = prepare(tmp_path / "out", bpe, "--train", source, "--valid-share", 1e-9)
    train, valid = (sentences(output, split, bpe) for split in ("train", "valid"))
    assert len(valid) == 3 and sorted(train + valid) == sorted(corpus_sentences())
    source = write_file(tmp_path / "single.txt", "The inn.\n" * 50)
    message = refused(prepare_text.main, tmp_path / "o", "--bpe", bpe, "--train", source, "--workers", 1)
    assert "nothing is left for train" in message and "a single document" in message
    assert not list(tmp_path.glob("o*.partial"))


def test_a_line_of_any_length_in_bounded_memory(bpe, tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "LONGEST", 100)
    monkeypatch.setattr(corpus, "MOST_BYTES", 1000)
    words, cjk = " ".join(f"w{i}" for i in range(60)), "東" * 70
    source = write_file(tmp_path / "a.txt", f"{words}\n\n{cjk}\nshort\n")
    jsonl = write_file(
        tmp_path / "a.jsonl", json.dumps({"text": words}) + '\n{"text": "' + 2000 * "x" + '"}\n'
    )
    valid = write_file(tmp_path / "v", "v")
    output = prepare(tmp_path / "out", bpe, "--train", source, jsonl, "--valid", valid)
    found = "\n".join(sentences(output, "train", bpe)).split("\n\n")
    plain, chinese, from_json = (text.strip().split("\n") for text in found)
    assert " ".join(plain) == " ".join(from_json) == words and "".join(chinese) == cjk + "short"
    assert all(len(text.encode()) <= 100 for text in (*plain, *chinese, *from_json))
    result = json.loads((output / "prepared.json").read_text())
    assert result["rejected"] == {"a line of 1,000 bytes or more": 1} and result["paragraphs cut"]


def test_only_wikipedia_is_cleaned_of_markup(bpe, tmp_path):
    """Of other text, a program's brackets are text."""
    code = "Call main() (or) if a <b and c> d"
    rows = [{"text": code, "title": "Call"}, {"text": f"T\n{code}", "title": "T", "id": 1, "url": "u"}]
    for name, row, kept in (("a", rows[0], code), ("b", rows[1], "Call main if a d")):
        source = write_file(tmp_path / f"{name}.jsonl", json.dumps(row) + "\n")
        output = prepare(tmp_path / name, bpe, "--train", source, "--valid", write_file(tmp_path / "v", "v"))
        assert sentences(output, "train", bpe) == [kept, ""]
        assert json.loads((output / "prepared.json").read_text())["markup removed"] == 3 * (kept != code)


def test_a_row_of_too_many_cells_is_no_text(bpe, tmp_path):
    source = write_file(tmp_path / "a.csv", 'id,text\n1,"Good, quoted."\n2,Bad, unquoted.\n\n3,\n')
    output = prepare(tmp_path / "out", bpe, "--train", source, "--valid", write_file(tmp_path / "v", "v"))
    assert sentences(output, "train", bpe) == ["Good, quoted.", ""]
    assert json.loads((output / "prepared.json").read_text())["rejected"] == {"wrong number of cells": 1}
