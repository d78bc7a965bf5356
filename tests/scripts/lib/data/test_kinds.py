"""What a file is: unpacked if it is packed; text in its layout, or refused with what to do."""

import bz2
import gzip
import json
import lzma

import pytest
from lib.command_line import UserError
from lib.data.kinds import lines_of, opened, text_layout

from tests.support.builders import write_file

PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def test_files_that_cannot_be_read(tmp_path):
    packed = {end: pack("".join(map(str, range(50_000))).encode()) for end, pack in PACKERS.items()}
    contents = [("none", None, "does not exist"), (".", None, "not a file")]
    contents += [("a.txt", b"good\nbad \xff\n", "a.txt, line 2: .*byte 4")]
    contents += [("long.gz", gzip.compress(b"\n" + b"C" * (1 << 24)), "long.gz, line 2 has 16,777,216 bytes")]
    for end, pack in PACKERS.items():
        damaged = packed[end][:40] + b"\xff" * 20 + packed[end][60:]
        halves = (packed[end][:-12], packed[end][: len(packed[end]) // 2], damaged)
        contents += [(f"a{end}", content, f"a{end}.*damaged") for content in halves]
        contents += [(f"a{end}", b"text\n", f"a{end} is no {end} file")]
        contents += [("a.gz", gzip.compress(pack(b"twice\n")), f"to a name in {end}")]
    for name, content, named in contents:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=named):
            list(lines_of(tmp_path / name))
    write_file(tmp_path / "a.gz", "text")
    with pytest.raises(FileNotFoundError), opened(tmp_path / "a.gz"):  # an error that is not the file's
        (tmp_path / "gone").read_text()


WRAPPED = "It was the best of times, it was the\nworst of times, it was the age of\nwisdom.\n\n" * 8
DOCUMENTS = "Some Title\nA first paragraph, on one line.\nA second one.\n\n" * 8
WIKI_KEYS = {"id": 1, "url": "u", "title": "t", "text": "The text."}


@pytest.mark.parametrize(
    ("content", "name", "layout"),
    [
        (DOCUMENTS, "a", "paragraphs"),
        (DOCUMENTS.replace("\n\n", "\n"), "a", "paragraphs"),
        (WRAPPED, "a", "books"),
        ("", "a", "empty"),
        ("".join(f"Chapter {i}\n" for i in range(9)), "a", "paragraphs"),
        ("So?\nI (we) see.\nNo.\nOn (it).\nC1 is one.\nOh!\n", "a", "paragraphs"),
        ("1 2\n3 4\n5 6 7\n8 9\n10 11\n", "a", "paragraphs"),
        ("[1] A note, in brackets.\n", "a", "paragraphs"),
        ("text, and more text\n", "a", "paragraphs"),
        ('"Who is it?"\n"It is I," he said.\n', "a", "paragraphs"),
        ("<s> It is. <unk> it was.\nNo.\n", "a", "paragraphs"),
        ("<p was less than 0.05.\n", "a", "paragraphs"),
        ("<doc id='1' title=\"T\">\nT\n</doc>\n", "wiki_00", "wikiextractor"),
        (json.dumps(WIKI_KEYS) + "\n", "wiki_00", "json"),
        ('{"text": "cut sh\n{"text": "good"}\n', "a.jsonl", "json"),
        ('{"text": "' + "long " * 20000 + '"}\n', "a", "json"),
        ("id,text\n1,a\n", "a", "table"),
        ('"title";"text"\n', "a.txt", "table"),
        ("any\tthing\n", "a.tsv", "table"),
        ("anything\n", "a.CSV", "table"),
        (b"PAR1\0\0", "a", "parquet"),
    ],
)
def test_layouts_of_text(content, name, layout, tmp_path):
    for start in ("", "\ufeff", " \n"):
        if isinstance(content, str) and (content or not start):
            assert text_layout(write_file(tmp_path / name, start + content), "text") == layout
    if not name.startswith("wiki"):
        assert text_layout(write_file(tmp_path / f"{name}.gz", content), "text") == layout


@pytest.mark.parametrize(
    ("content", "way_out"),
    [
        (json.dumps([WIKI_KEYS]), "jq -c '.\\[\\]'"),
        ('[\n\n"A text."]', "jq"),
        (json.dumps(WIKI_KEYS, indent=2), "jq -c ."),
        (json.dumps(WIKI_KEYS, indent=2) * 9000, "jq -c ."),
        ("<mediawiki xmlns='x'>\n", "wikiextractor"),
        ("<!-- saved from the web -->\n<HTML lang=en>", "extract its text"),
        ("<!DOCTYPE html>\n<html>", "extract its text"),
        ("{\\rtf1\\ansi Hello}\n", "unrtf"),
        ('"One document."\n"Another,\\nof two lines."\n', "JSON strings, .*jq -c '{text: .}'"),
        ("one\rtwo\rthree\r", "tr "),
        ("a\r" * 30_000 + " " * 5000 + "\n", "tr "),
        ("ethanol\n\n\n  0  0  0  0  0  0  0  0  0  0  0 V2000\nM  END\n$$$$\n", "obabel"),
        ("UTF-16 text".encode("utf-16"), "iconv -f UTF-16"),
        ("UTF-16 text".encode("utf-16-le"), "iconv"),
        ("UTF-32 text".encode("utf-32"), "iconv -f UTF-32"),
        (b"PK\3\4....", "unzip"),
        (b"\x28\xb5\x2f\xfd....", "zstd -d"),
        ("".join(f"w{i} {9 - i}\n" for i in range(6)), "--dictionary"),
        ("<corpus lang='en'>\n<s>It is.</s>\n", "extract its text"),
        ("<DOC>\nThat was all.\n</DOC>\n", "extract its text"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
        ('{"data": {"text": "a"}}\n{"data": 1}\n', "no 'text': its keys are 'data'.*--text-column"),
        ("id;body\n" + "1;It is so.\n" * 5, "separated by ';'.*--text-column"),
        ("dièse\n".encode("cp1252") * 3, "iconv -f CP1252"),
        ("smiles id\n" + "CC(=O)Oc1ccccc1C(=O)O aspirin\nCCO ethanol\nC1CC1\n" * 9, "prepare_smiles.py"),
        ("InChI=1S/CH4/h1H4\n" * 6, "inchi"),
        (b"%PDF-1.7", "pdftotext"),
    ],
)
def test_what_is_refused_with_its_conversion(content, way_out, tmp_path):
    for end in ("", ".gz", ".bz2"):
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / f"a{end}").write_bytes(PACKERS.get(end, bytes)(data))
        with pytest.raises(UserError, match=f"/a{end} .*{way_out}"):
            text_layout(tmp_path / f"a{end}", "text")
