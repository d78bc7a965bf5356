"""The text of the quickstart is prose, each paragraph once."""

import sys

from lib.data import python_docs


def test_paragraphs_of_topics(tmp_path, monkeypatch):
    topics = {"b": "One two three\nfour *five* six.\n\n   Too short.\n\n   >>> f(1)\n   a b c d e f.\n"}
    topics |= {"a": "Six words of the topic a.\n\n=====  =====\nA table of more than six words.\n"}
    topics |= {
        "c": "Six words of the topic a.",
        "d": "Six words of the topic a.\n\nWords of the last topic, six.",
    }
    monkeypatch.setattr(python_docs, "topics", topics)
    monkeypatch.setattr(sys, "argv", ["python_docs", str(tmp_path / "corpus.txt")])
    assert python_docs.main() == 0
    expected = (
        "Six words of the topic a.\n\nOne two three four five six.\n\nWords of the last topic, six.\n\n"
    )
    assert (tmp_path / "corpus.txt").read_text() == expected
