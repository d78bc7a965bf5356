"""The corpus of the quickstart: what counts as prose, and each paragraph once."""

import sys

from lib.data import python_docs


def test_only_prose_is_kept_and_list_items_are_paragraphs():
    text = """frobnicate(thing, *, times=1) -> object

    Return the *thing* with all of its parts
    frobnicated, as :func:`frob` does, ``times`` times.

        >>> frobnicate(1)

    ================================
    a table of things that are no prose
    ================================

    - The first item of a list is a paragraph of its own.
    - The second one, too, is a paragraph of its own.

        x = f(1); y[2] = {3: 4}; z += g(x, y) if x > 0 else 0.

    Too short.
    """
    assert list(python_docs.paragraphs(text)) == [
        "Return the thing with all of its parts frobnicated, as frob does, times times.",
        "The first item of a list is a paragraph of its own.",
        "The second one, too, is a paragraph of its own.",
    ]


def test_documents_are_topics_and_modules_that_are_never_run(tmp_path):
    files = {
        "pydoc_data/topics.py": "t = {'b': 'One two three four five six.', 'a': 'Six words of the topic a.'}",
        "good.py": '"""Six words of prose stand here."""\nraise RuntimeError("a module is never run")\n'
        'class A:\n    async def f(self):\n        """Of a method, six words long."""\n'
        'def g():\n    return "this is not a docstring at all."\n',
        "template.py": '"""Not Python, but six words long."""\n{{ this }} is %s',
        "test/skipped.py": '"""Tests are left out of it."""',
        "twice.py": '"""six words of PROSE stand here."""',
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "latin.py").write_bytes(b'"""caf\xe9 is not written in UTF-8 here."""')
    assert list(python_docs.documents(tmp_path)) == [
        ["Six words of prose stand here.", "Of a method, six words long."],
        ["Six words of the topic a."],
        ["One two three four five six."],
        [],
    ]


def test_the_corpus_is_written_unless_it_is_small(tmp_path, monkeypatch, capsys):
    (tmp_path / "good.py").write_text('"""Six words of prose stand here."""\n')
    monkeypatch.setattr(python_docs.sysconfig, "get_path", {"stdlib": tmp_path}.get)
    corpus = tmp_path / "corpus.txt"
    monkeypatch.setattr(sys, "argv", ["english", str(corpus)])
    assert python_docs.main() == 2 and not corpus.exists() and "6 words" in capsys.readouterr().err
    monkeypatch.setattr(python_docs, "LEAST_CORPUS_WORDS", 6)
    assert python_docs.main() == 0 and corpus.read_text() == "Six words of prose stand here.\n\n"
