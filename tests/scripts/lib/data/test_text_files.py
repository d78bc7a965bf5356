"""Files are read as they are compressed, whatever their names."""

import bz2
import gzip
import lzma

import pytest
from lib.data.documents import layouts_of
from lib.data.text_files import lines_of

from tests.support.builders import write_file


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_lines(compress, tmp_path):
    text = "\ufeffgood\r\nno\x85end\n\nlast"
    for name in ("a", "a.xz", "a.txt"):
        path = write_file(tmp_path / name, compress(text.encode()))
        assert list(lines_of(path)) == [(1, "good"), (2, "no\x85end"), (3, ""), (4, "last")]


@pytest.mark.parametrize(
    ("content", "name", "layout"),
    [
        ("Some text\n\nsmiles,text\n", "a.txt", "paragraphs"),
        ("", "a", "paragraphs"),
        ("<p was less than 0.05.\n", "a", "paragraphs"),
        ('{"text": "cut sh\n{"text": "good"}\n', "wiki_00", "json"),
        ("", "a.JSONL", "json"),
    ],
)
def test_layouts_of_text(content, name, layout, tmp_path):
    for start in ("", "\ufeff", " \n"):
        path = write_file(tmp_path / name, start + content)
        assert layouts_of([path]) == {path: layout}
        assert layouts_of([path], "books") == {path: "books" if layout == "paragraphs" else layout}
