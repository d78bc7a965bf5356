"""The corpus of the quickstart: what counts as prose, and each paragraph once."""

import sys

from lib.data import python_docs

from tests.support.builders import write_file

DOCSTRING = """frobnicate(thing, *, times=1) -> object

    Return the *thing* with all of its parts
    frobnicated, as :func:`frob` does, ``times`` times.

        >>> frobnicate(1)

    ================================
    a table of things that are no prose
    ================================

    - The first item of a list is a paragraph of its own.

        x = f(1); y[2] = {3: 4}; z += g(x, y) if x > 0 else 0.

    Too short.
    """
FILES = {
    "pydoc_data/topics.py": "t = {'b': 'One two three four five six.', 'a': 'Six words of the topic a.'}",
    "good.py": f'"""{DOCSTRING}"""\nraise RuntimeError("a module is never run")\n'
    'class A:\n    async def f(self):\n        """Of a method, six words long."""\n'
    'def g():\n    return "this is not a docstring at all."\n',
    "template.py": '"""Not Python, but six words long."""\n{{ this }} is %s',
    "test/skipped.py": '"""Tests are left out of it."""',
    "twice.py": '"""The FIRST item of a list is a paragraph of its own."""',
    "latin.py": '"""caf\xe9 is not written in UTF-8 here."""',
}


def test_documents_are_topics_and_modules_that_are_never_run(tmp_path, monkeypatch):
    for name, content in FILES.items():
        write_file(tmp_path / "library" / name, content.encode("latin-1"))
    monkeypatch.setattr(python_docs.sysconfig, "get_path", {"stdlib": tmp_path / "library"}.get)
    corpus = tmp_path / "corpus.txt"
    monkeypatch.setattr(sys, "argv", ["english", str(corpus)])
    assert python_docs.main() == 0
    first = "Return the thing with all of its parts frobnicated, as frob does, times times."
    assert [document.split("\n") for document in corpus.read_text().rstrip("\n").split("\n\n")] == [
        [first, "The first item of a list is a paragraph of its own.", "Of a method, six words long."],
        ["Six words of the topic a."],
        ["One two three four five six."],
    ]
