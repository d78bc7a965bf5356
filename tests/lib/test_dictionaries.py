"""Dictionaries of fairseq: what is read, and which line of a file is wrong."""

import pytest
from lib.command_line import UserError
from lib.dictionaries import read_dictionary


def test_as_fairseq_reads_it(tmp_path):
    from fairseq.data import Dictionary

    path = tmp_path / "dict.txt"
    path.write_text("Ġthe 5\na b 3\n\u2028 2\nx 1 #fairseq:overwrite\n<mask> 1\n", encoding="utf-8")
    found, oracle = read_dictionary(tmp_path), Dictionary.load(str(path))
    assert (found.symbols, found.count, found.indices) == (oracle.symbols, oracle.count, oracle.indices)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"the 5\nand\n", "dict.txt, line 2: 'and' is not a symbol and its count"),
        (b"the 5\nno count\n", "line 2: 'no count' is not a symbol"),
        (b"the 5\nthe 4\n", "line 2: 'the 4' repeats a symbol"),
        (b"the 5\n</s> 4\n", "line 2: '</s> 4' repeats a symbol"),
        (b"\xff 5\n", "dict.txt is not a dict.txt of fairseq: invalid UTF-8"),
        (b"", "dict.txt is empty: give the dict.txt of the pre-training"),
        (None, "dict.txt does not exist: give the dict.txt of the pre-training, or its folder"),
    ],
)
def test_a_dictionary_that_cannot_be_read(content, message, tmp_path):
    if content is not None:
        (tmp_path / "dict.txt").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_dictionary(tmp_path / "dict.txt")
