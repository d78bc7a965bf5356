"""Any bytes: what prepare_text.py accepts comes back from the binary files as it was meant, or is refused."""

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import tempfile
from pathlib import Path

import pandas
import prepare_text
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.support import builders
from tests.support.builders import BYTE_OF_LETTER, write_gpt2

ODD = "  two \t blanks\u00a0and\u2003more soft\u00adhyphen \ufeffmark bell\x07 zero\u200bwidth क्\u200dष"
PACKERS = [bytes, gzip.compress, bz2.compress, lzma.compress]
LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=30)
TEXTS = st.lists(st.lists(LINE, max_size=4).map("\n".join), min_size=1, max_size=5)
PHASES, CHECKS = (Phase.explicit, Phase.generate), [HealthCheck.function_scoped_fixture]
FEW = settings(max_examples=10, deadline=None, phases=PHASES, suppress_health_check=CHECKS)


@pytest.fixture(scope="module")
def codes(tmp_path_factory) -> tuple[Path, dict[str, bytes]]:
    """A BPE of single bytes, and the byte of each symbol by GPT-2's table."""
    folder = write_gpt2(tmp_path_factory.mktemp("bpe"), [])
    ids = json.loads((folder / "encoder.json").read_text())
    return folder, {str(i): bytes([BYTE_OF_LETTER[character]]) for character, i in ids.items()}


def decoded(folder: Path, codes: dict[str, bytes]) -> list[list[str]]:
    """The documents of train, each of which ends with an empty sentence."""
    documents = [[]]
    for symbols in builders.read_split(folder, "train"):
        if symbols:
            documents[-1].append(b"".join(map(codes.get, symbols)).decode())
        else:
            documents.append([])
    assert documents.pop() == []
    return documents


def words(text: str) -> list[str]:
    """What a paragraph has to keep, said otherwise than the cleaning does."""
    gone = [*range(9), *range(14, 28), 127, 0xAD, *range(0x202A, 0x202F)]
    gone += [0x200B, 0x200E, 0x200F, 0x2060, 0xFEFF]
    return text.translate(dict.fromkeys(gone)).split()


def paragraphs(texts: list[str]) -> list[list[str]]:
    """The words of each text's lines, in their order; those without any aside."""
    documents = [[words(line) for line in text.split("\n")] for text in texts]
    return [lines for lines in ([line for line in document if line] for document in documents) if lines]


def prepared(content: bytes, name: str, codes, capsys) -> list[list[list[str]]] | str:
    """The words of each paragraph of each document, or what was said."""
    bpe, symbols = codes
    with tempfile.TemporaryDirectory() as place:
        source, valid, out = Path(place, name), Path(place, "v"), Path(place, "out")
        source.write_bytes(content)
        valid.write_text("v")
        given = [out, "--bpe", bpe, "--workers", 1, "--train", source, "--valid", valid]
        status = prepare_text.main(list(map(str, given)))
        said = capsys.readouterr()
        if status:
            assert status == 2 and said.err.startswith("error: ") and "Traceback" not in said.err
            return said.err
        return [[line.split(" ") for line in document] for document in decoded(out, symbols)]


@FEW
@given(st.binary(max_size=300), st.sampled_from(["a", "a.txt", "a.jsonl", "a.csv", "a.gz", "a.parquet"]))
@example(b"PAR1" + bytes(20), "a")
@example(b"\x1f\x8b\x08\x00", "a.gz")
@example(b'{"text": ' + b"[" * 200, "a")
@example(b'text,b\n"' + b"x" * 50, "a.csv")
@example(gzip.compress(b"text\n")[:-6], "a.gz")
def test_any_bytes_are_read_or_refused(codes, capsys, content, name):
    prepared(content, name, codes, capsys)


@FEW
@given(TEXTS, st.sampled_from(PACKERS), st.sampled_from(["", "\ufeff"]))
@example(["a\x1cb\x85c\n\x1c\nd", ODD], bytes, "")
def test_plain_text(codes, capsys, texts, pack, mark):
    """Lines are paragraphs; one without or with ASCII's blanks alone ends a document. What looks like another
    format may be refused."""
    content = "\n\n".join(texts)
    found = prepared(pack((mark + content).encode()), "a", codes, capsys)
    if not isinstance(found, str):
        assert found == paragraphs(re.split(r"\n(?:[ \t\r\v\f]*\n)+", content))


@FEW
@given(TEXTS.filter(lambda texts: "\0" not in "".join(texts)), st.sampled_from(PACKERS))
def test_records(codes, capsys, texts, pack):
    """JSON, CSV and Parquet say the same."""
    table, buffers = pandas.DataFrame({"n": range(len(texts)), "text": texts}), {}
    table.to_parquet(buffer := io.BytesIO())
    buffers["a.parquet"] = buffer.getvalue()
    buffers["a.jsonl"] = pack(table.to_json(orient="records", lines=True).encode())
    buffers["a.tsv"] = pack(table.to_csv(sep="\t", index=False, quoting=csv.QUOTE_NONNUMERIC).encode())
    for name, content in buffers.items():
        found = prepared(content, name, codes, capsys)
        assert found == paragraphs(texts) or ("nothing is left" in found and not paragraphs(texts)), name
