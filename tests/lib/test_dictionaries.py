"""Dictionaries that cannot be read: what is said of them."""

import pytest
from lib.command_line import UserError
from lib.dictionaries import read_dictionary


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"the 5\nand\n", "dict.txt is not a dict.txt of fairseq .*format.*and"),
        (b"the 5\nthe 4\n", "Duplicate word .*'the'"),
        (b"\xff 5\n", "Incorrect encoding"),
        (b"", "dict.txt is empty: give the dict.txt of the pre-training, or its folder"),
        (None, "No such file .*: give the dict.txt of the pre-training"),
    ],
)
def test_a_dictionary_that_cannot_be_read(content, message, tmp_path):
    if content is not None:
        (tmp_path / "dict.txt").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_dictionary(tmp_path / "dict.txt")
