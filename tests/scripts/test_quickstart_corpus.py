"""The quickstart's corpus: prose is kept, the rest is dropped, and the split never moves."""

import pytest
import quickstart_corpus as corpus


def test_paragraphs_keeps_prose_and_drops_the_rest():
    text = """
    frobnicate(thing, *, times=1) -> thing
    Return the thing with all of its *parts* frobnicated, as
    :func:`frob` does, ``times`` times.

    >>> frobnicate("a tree of many words that are plain")
    This line is the output of a prompt, not prose.

    Results
    =======

    | this | is a | table with | plain words |

    statement ::= "if" expression and so many words follow here

    - The first item of a list is a paragraph of its own.
    - The second one, too, is a paragraph of its own.

        x = f(1); y[2] = {3: 4}; z += g(x, y) if x > 0 else 0

    Too short.
    """
    assert corpus.paragraphs(text) == [
        "Return the thing with all of its parts frobnicated, as frob does, times times.",
        "The first item of a list is a paragraph of its own.",
        "The second one, too, is a paragraph of its own.",
    ]


def test_docstrings_are_read_in_order_without_running_the_module():
    source = '''"""Of the module."""
raise RuntimeError("a module is never run")

class Thing:
    """Of the class."""

    async def method(self):
        """Of the method."""

def function():
    return "not a docstring"
'''
    assert corpus.docstrings(source) == ["Of the module.", "Of the class.", "Of the method."]


def test_topics_reads_the_dictionary_and_says_when_there_is_none():
    assert corpus.topics("# a comment\ntopics = {'if': 'The statement.'}\n") == {"if": "The statement."}
    with pytest.raises(ValueError, match="assigns no dictionary"):
        corpus.topics("topics = load()\n")


def test_read_documents_survives_files_that_are_no_python(tmp_path):
    (tmp_path / "pydoc_data").mkdir()
    (tmp_path / "pydoc_data" / "topics.py").write_text(
        "topics = {'b': 'One two three four five six.', 'a': ''}"
    )
    (tmp_path / "good.py").write_text('"""Six words of prose stand here."""')
    (tmp_path / "template.py").write_text('"""Not Python"""\n{{ this }} is %s')
    (tmp_path / "latin.py").write_bytes(b'"""caf\xe9"""')
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "skipped.py").write_text('"""Six words of prose stand here."""')
    assert list(corpus.read_documents(tmp_path)) == [
        ("topic a", []),
        ("topic b", ["One two three four five six."]),
        ("good.py", ["Six words of prose stand here."]),
    ]


def test_duplicates_go_whatever_their_case_and_numbers():
    documents = [
        ("a", ["Since version 3.1 it works.", "Other."]),
        ("b", ["since version 3.12 it works"]),
        ("c", []),
    ]
    assert list(corpus.without_duplicates(documents)) == [("a", ["Since version 3.1 it works.", "Other."])]


def test_the_split_depends_on_the_name_alone_and_has_its_share():
    chosen = [corpus.is_validation(f"module_{number}.py") for number in range(20_000)]
    assert sum(chosen) / len(chosen) == pytest.approx(corpus.VALIDATION_SHARE, abs=0.006)
    assert chosen[:50] == [corpus.is_validation(f"module_{number}.py") for number in range(50)]


def test_bpe_encodes_any_text_and_gives_it_back():
    lines = ["the cat sat on the mat and the dog sat on the cat"] * 3
    tokenizer = corpus.train_tokenizer(lines, vocabulary=280)
    unseen = "the «zebra» 🦓 sat"
    (encoded,) = corpus.encode_lines(tokenizer, [unseen])
    assert "\n" not in encoded
    ids = [tokenizer.token_to_id(token) for token in encoded.split(" ")]
    assert None not in ids
    assert tokenizer.decode(ids).strip() == unseen
