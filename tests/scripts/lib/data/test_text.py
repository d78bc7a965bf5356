"""Cleaning of paragraphs."""

import pytest
from lib.data import text


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("  two \t blanks\u00a0and\u2003more ", "two blanks and more"),
        ("soft\u00adhyphen, \ufeffmark, bell\x07", "softhyphen, mark, bell"),
        ("fs\x1cgs\x1drs\x1eus\x1fend", "fs gs rs us end"),
        ("zero\u200bwidth, joined क्\u200dष", "zerowidth, joined क्\u200dष"),
        ("3 < 4 &amp; <b>kept</b>", "3 < 4 &amp; <b>kept</b>"),
    ],
)
def test_cleaning(raw, cleaned):
    assert text.clean(raw) == cleaned


@pytest.mark.parametrize(
    ("raw", "cleaned", "removed"),
    [
        ("3 < 4 &amp; <b>bold</b><br/> 5 &gt; 2", "3 < 4 & bold 5 > 2", 3),
        ("Paris (; ) is (or ) a city (in France)", "Paris is a city (in France)", 2),
        ("&lt;ref name=x&gt;note&lt;/ref&gt;", "note", 2),
    ],
)
def test_cleaning_of_wikipedia(raw, cleaned, removed):
    assert text.without_markup(raw) == (cleaned, removed)
