"""Files are read as they are compressed, whatever their names; what is no text is refused."""

import bz2
import gzip
import lzma

import pytest
from lib.data.documents import layouts_of
from lib.data.text_files import lines_of, opened

from tests.support.builders import write_file


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_lines_and_damage(compress, tmp_path):
    text = "\ufeffgood\r\nno\x85end\n\nlast " + "".join(map(str, range(50_000)))
    content = compress(text.encode())
    for name in ("a", "a.xz", "a.txt"):
        path = write_file(tmp_path / name, content)
        assert list(lines_of(path)) == [(1, "good"), (2, "no\x85end"), (3, ""), (4, text.split("\n")[-1])]
    damaged = content[:40] + b"\xff" * 20 + content[60:]
    for broken in (damaged, *([content[:-12], content[: len(content) // 2]] * (compress is not bytes))):
        with pytest.raises(ValueError, match=r"a\.txt: "):
            list(lines_of(write_file(path, broken)))
    with pytest.raises(FileNotFoundError), opened(write_file(path, content)):
        (tmp_path / "another").read_text()


@pytest.mark.parametrize(
    ("content", "name", "layout"),
    [
        ("Some text\n\nsmiles,text\n", "a.txt", "paragraphs"),
        ("", "a", "paragraphs"),
        ("<p was less than 0.05.\n", "a", "paragraphs"),
        ("<doc id='1' title=\"T\">\nT\n</doc>\n", "wiki_00", "wikiextractor"),
        ('{"text": "cut sh\n{"text": "good"}\n', "wiki_00", "json"),
        ("", "a.jsonl", "json"),
        ("anything\n", "a.CSV", "table"),
        ("any\tthing\n", "a.tsv.gz", "table"),
    ],
)
def test_layouts_of_text(content, name, layout, tmp_path):
    for start in ("", "\ufeff", " \n"):
        path = write_file(tmp_path / name, start + content)
        assert layouts_of([path]) == {path: layout}
        assert layouts_of([path], "books") == {path: "books" if layout == "paragraphs" else layout}


BINARY = [b"PK\3\4\0\0 text", "text".encode("utf-16"), "text".encode("utf-32-le"), b"%PDF-1.7\n"]
MARKUP = [
    b"<mediawiki xmlns='x'>\n",
    b"\xef\xbb\xbf<?xml version='1.0'?>",
    b"\n<!DOCTYPE html>",
    b"<HTML lang=en>",
]


@pytest.mark.parametrize("content", BINARY + MARKUP)
def test_what_is_no_text(content, tmp_path):
    for compress in (bytes, gzip.compress):
        with pytest.raises(ValueError, match="a.txt is not text"):
            layouts_of([write_file(tmp_path / "a.txt", compress(content))])
