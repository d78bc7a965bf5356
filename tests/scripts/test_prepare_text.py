"""Text in four layouts becomes the same paragraphs; nothing is lost, and an interruption leaves no trace."""

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import prepare_text
import pytest
from fairseq.data import Dictionary, data_utils
from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from recipes.corpora import documents, text
from recipes.corpora.blocks import PreparationError

from tests.builders import GPT2, SHARED, write_gpt2

SCRIPT = Path(prepare_text.__file__)
# name -> paragraphs, as they are to come out
CORPUS = {
    f"Document {i}": [f"The thing {i} is in the inn, the {word}.", "Then it thins; “the end” in é."]
    for i, word in enumerate(["one", "two", "three", "four", "five", "six", "seven", "eight"])
}


@pytest.fixture
def bpe(tmp_path):
    return write_gpt2(tmp_path / "bpe", [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n")])


def paragraphs_text() -> str:
    return "\n\n".join("\n".join(paragraphs) for paragraphs in CORPUS.values()) + "\n"


def wiki_text() -> str:
    return "".join(
        f'<doc id="{i}" url="https://x?curid={i}" title="{title}">\n{title}\n\n'
        + "\n".join(paragraphs)
        + "\n\n</doc>\n"
        for i, (title, paragraphs) in enumerate(CORPUS.items())
    )


def json_text() -> str:
    return "".join(
        json.dumps({"id": "1", "title": title, "text": f"{title}\n\n" + "\n".join(paragraphs) + "\n"}) + "\n"
        for title, paragraphs in CORPUS.items()
    )


def prepare(output, bpe, *arguments) -> Path:
    prepare_text.main([str(a) for a in (output, "--bpe", bpe, "--workers", 1, *arguments)])
    return output


def sentences(folder: Path, split: str, bpe: Path) -> list[str]:
    """The text of each sentence of a split by fairseq's own reader and BPE; "" for an empty one."""
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    codec = get_encoder(str(bpe / "encoder.json"), str(bpe / "vocab.bpe"))
    dataset = data_utils.load_indexed_dataset(str(folder / split), dictionary)
    found = []
    for i in range(len(dataset)):
        ids = dataset[i].tolist()
        assert ids[-1] == dictionary.eos() and dictionary.eos() not in ids[:-1]
        found.append(codec.decode([int(dictionary[j]) for j in ids[:-1]]))
    return found


def expected() -> list[str]:
    return [line for paragraphs in CORPUS.values() for line in [*paragraphs, ""]]


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("layout", documents.LAYOUTS)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_every_layout(layout, ending, bpe, tmp_path):
    valid = write(tmp_path / "valid.txt", "a line\n")
    if layout == "books":
        source = tmp_path / "books"
        for i, paragraphs in enumerate(CORPUS.values()):
            # hard-wrapped, as books are
            wrapped = [paragraph.replace(" ", "\n", 1) for paragraph in paragraphs]
            write(source / f"{i}.txt{ending}", "\n\n".join(wrapped) + "\n")
        write(source / ".hidden", "no book")
    else:
        content = {"paragraphs": paragraphs_text, "wikiextractor": wiki_text, "json": json_text}[layout]()
        source = write(tmp_path / f"corpus{ending}", content)
    output = prepare(tmp_path / "out", bpe, "--train", source, "--valid", valid)
    assert sentences(output, "train", bpe) == expected()
    assert sentences(output, "valid", bpe) == ["a line", ""]
    result = json.loads((output / "prepared.json").read_text())["result"]
    assert result["documents"] == len(CORPUS) + 1 and result["paragraphs"] == 2 * len(CORPUS) + 1
    assert result["rejected"] == {} and result["empty documents"] == 0


def test_the_split_is_by_document_and_by_its_content_alone(bpe, tmp_path):
    many = [[f"Document {i} begins.", f"It ends in {i * i}."] for i in range(400)]

    def corpus(name, chosen):
        return write(tmp_path / name, "\n\n".join("\n".join(d) for d in chosen))

    first = prepare(tmp_path / "a", bpe, "--train", corpus("a.txt", many), "--valid-share", 0.1)
    valid = sentences(first, "valid", bpe)
    train = sentences(first, "train", bpe)
    assert sorted(valid + train) == sorted(line for d in many for line in [*d, ""])
    assert 20 <= len(valid) // 3 <= 60  # of 400, 10%
    for found in (valid, train):
        for i in range(0, len(found), 3):
            first, second, end = found[i : i + 3]
            assert end == "" and second == f"It ends in {int(first.split()[1]) ** 2}."
    other = corpus("b.txt", many[::-1])
    second = prepare(tmp_path / "b", bpe, "--train", other, "--valid-share", 0.1)
    assert set(sentences(second, "valid", bpe)) == set(valid)


def test_a_document_longer_than_a_block(bpe, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "PIECE_BYTES", 100)
    monkeypatch.setattr(documents, "BLOCK_BYTES", 150)
    long = [f"Line {i} of the long one." for i in range(50)]
    source = write(tmp_path / "a.txt", "short one\n\n" + "\n".join(long) + "\n\nlast one\n")
    blocks = list(documents.blocks_of(source, "paragraphs"))
    assert len(blocks) > 5
    pieces = [piece for block in blocks for piece in block.payload.pieces]
    assert len({piece.key for piece in pieces}) == 3
    output = prepare(tmp_path / "out", bpe, "--train", source, "--valid", write(tmp_path / "v", "v"))
    assert sentences(output, "train", bpe) == ["short one", "", *long, "", "last one", ""]


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("  two \t blanks\u00a0and\u2003more ", "two blanks and more"),
        ("soft\u00adhyphen, \ufeffmark, bell\x07", "softhyphen, mark, bell"),
        ("zero\u200bwidth, joined क्\u200dष", "zerowidth, joined क्\u200dष"),
        ("3 < 4 &amp; <b>kept</b>", "3 < 4 &amp; <b>kept</b>"),
    ],
)
def test_cleaning(raw, cleaned):
    assert text.clean(raw) == cleaned


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("3 < 4 &amp; <b>bold</b><br/> 5 &gt; 2", "3 < 4 & bold 5 > 2"),
        ("Paris (; ) is (or ) a city (in France)", "Paris is a city (in France)"),
        ("&lt;ref name=x&gt;note&lt;/ref&gt;", "note"),
    ],
)
def test_cleaning_of_wikipedia(raw, cleaned):
    assert text.clean(raw, markup=True) == cleaned


def test_what_cannot_be_read_is_listed_and_costs_nothing_else(bpe, tmp_path):
    broken = wiki_text() + "stray line\n<doc id='9' title=\"Cut\">\nCut\n\nThe last words.\n"
    wiki = write(tmp_path / "wiki", broken)
    lines = b"good line\nbad \xff\xfe line\nanother good line\n\n \n\n\x07\n\nend\n"
    plain = write(tmp_path / "plain.txt", lines)
    jsonl = write(
        tmp_path / "j", json_text() + '{"text": 3}\n{"title": "x"}\n{"text": "cut sh\n{"text": ""}\n'
    )
    output = prepare(
        tmp_path / "out", bpe, "--train", wiki, plain, jsonl, "--valid", write(tmp_path / "v", "v")
    )
    found = sentences(output, "train", bpe)
    rest = ["The last words.", "", "good line", "another good line", "", "end", ""]
    assert found == [*expected(), *rest, *expected()]
    with (output / "rejected.tsv").open(newline="") as file:
        rows = list(csv.reader(file, dialect="excel-tab"))[1:]
    where = wiki_text().count("\n")
    assert [(Path(row[0]).name, row[1]) for row in rows] == [
        ("wiki", str(where + 1)),
        ("wiki", str(where + 2)),
        ("plain.txt", "2"),
        *(("j", str(len(CORPUS) + i)) for i in (1, 2, 3)),
    ]
    reasons = [row[2] for row in rows]
    assert reasons[0] == "outside of <doc> and </doc>" and reasons[1].startswith("the file ends without")
    assert reasons[2] == "not UTF-8: invalid start byte at byte 4"
    assert '"text" is no string' in reasons[3] and 'no "text"' in reasons[4] and "Untermin" in reasons[5]
    result = json.loads((output / "prepared.json").read_text())["result"]
    assert (result["empty paragraphs"], result["empty documents"]) == (1, 5)


def refusal(*arguments) -> str:
    with pytest.raises(SystemExit) as stop:
        prepare_text.main([str(a) for a in arguments])
    return str(stop.value)


def test_what_is_refused(bpe, tmp_path):
    source, out = write(tmp_path / "a.txt", "in the inn\n\nthe thin thing\n"), tmp_path / "out"
    asked = (out, "--bpe", bpe, "--train", source)
    assert "there is no such file or folder" in refusal(out, "--bpe", bpe, "--train", tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert "holds no file" in refusal(out, "--bpe", bpe, "--train", tmp_path / "empty")
    assert "is empty" in refusal(out, "--bpe", bpe, "--train", write(tmp_path / "e.txt", " \n\n"))
    assert "is no text file" in refusal(out, "--bpe", bpe, "--train", write(tmp_path / "z", b"\0\1"))
    assert "given more than once" in refusal(*asked, source)
    assert "both to --train and to --valid" in refusal(*asked, "--valid", source)
    assert "not both" in refusal(*asked, "--valid", source, "--valid-share", 0.1)
    assert "--valid-share 1.5" in refusal(*asked, "--valid-share", 1.5)
    assert "give 1 or more" in refusal(*asked, "--workers", 0)
    assert "--max-tokens 0: give 1 or more" in refusal(*asked, "--max-tokens", 0)
    assert "without ':'" in refusal(tmp_path / "a:b", *asked[1:])
    assert "has neither" in refusal(out, "--bpe", tmp_path, "--train", source)
    other = write_gpt2(tmp_path / "other", [("q", "u")])
    dictionary = write(tmp_path / "dict.txt", "".join(f"{i} 1\n" for i in range(260)))
    message = refusal(out, "--bpe", other, "--train", source, "--dictionary", dictionary)
    assert (
        "line 258: '257' is no token of" in message and "the BPE that the dictionary was made with" in message
    )
    few = write(tmp_path / "few.txt", "".join(f"{i} 1\n" for i in range(256)))
    message = refusal(*asked, "--dictionary", few, "--workers", 1)
    assert f"{source}, line 1: {few} does not know the token '25" in message
    packed = write(tmp_path / "p.txt.gz", "some text\n" * 50)
    packed.write_bytes(packed.read_bytes()[:-12])
    assert "broken or cut short gzip" in refusal(out, "--bpe", bpe, "--train", packed, "--overwrite")
    assert not (out / "prepared.json").exists()


def test_shards_hold_the_corpus_once(bpe, tmp_path):
    source, valid = write(tmp_path / "a.txt", paragraphs_text()), write(tmp_path / "v.txt", "v\n")
    out = prepare(tmp_path / "out", bpe, "--train", source, "--valid", valid, "--shards", 2)
    found = [sentences(out / f"shard{i}", "train", bpe) for i in range(2)]
    assert all(found) and sorted(found[0] + found[1]) == sorted(expected())
    assert sentences(out / "shard0", "valid", bpe) == ["v", ""]


@pytest.mark.parametrize("limit", [1, 7, 10, 1000])
def test_long_paragraphs_are_cut_and_nothing_is_lost(limit, bpe, tmp_path):
    texts = ["q" * n for n in (1, 9, 10, 11, 20, 21)]  # a token each
    source = write(tmp_path / "a.txt", "\n".join(texts) + "\n")
    valid = write(tmp_path / "v.txt", "v\n")
    out = prepare(tmp_path / "out", bpe, "--train", source, "--valid", valid, "--max-tokens", limit)
    wanted = [t[i : i + limit] for t in texts for i in range(0, len(t), limit)]
    assert sentences(out, "train", bpe) == [*wanted, ""]
    result = json.loads((out / "prepared.json").read_text())["result"]
    assert result["paragraphs cut"] == sum(len(t) > limit for t in texts)


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.glob("*.*")) if p.name != ".lock" and p.is_file()}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kills by /proc")
@pytest.mark.slow
def test_killed_and_started_again_gives_the_same_bytes(bpe, tmp_path):
    lines = (f"The thing {i} in the inn of {i * i}.\n" + ("\n" if i % 7 == 0 else "") for i in range(60_000))
    source = write(tmp_path / "a.txt", "".join(lines))
    whole = files_of(prepare(tmp_path / "whole", bpe, "--train", source))
    output = tmp_path / "killed"
    command = [sys.executable, str(SCRIPT), output, "--bpe", bpe, "--train", source, "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": f"{SCRIPT.parents[1]}"}
    process = subprocess.Popen(
        list(map(str, command)), env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while len(list(output.glob("parts/*.npz"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = len(list(output.glob("parts/*.npz")))
    assert done >= 2 and not (output / "prepared.json").exists() and not (output / "train.idx").exists()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # the workers end with their parent, and with it its lock
        try:
            prepare_text.main([str(a) for a in command[2:-1]] + ["1"])
            break
        except SystemExit as stop:
            assert "another run is at work" in str(stop)
            time.sleep(0.1)
    assert files_of(output) == whole


def test_a_full_disk_leaves_nothing_that_looks_whole(bpe, tmp_path, monkeypatch):
    source = write(tmp_path / "a.txt", paragraphs_text())
    valid = write(tmp_path / "v.txt", "v\n")
    asked = (tmp_path / "out", "--bpe", bpe, "--train", source, "--valid", valid, "--workers", 1)
    real = os.fsync

    def full(descriptor):
        if "train.bin" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(28, "No space left on device")
        return real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    assert "no space left on the disk" in refusal(*asked)
    there = {path.name for path in (tmp_path / "out").iterdir()}
    assert not there & {"train.bin", "train.idx", "prepared.json"}
    monkeypatch.setattr(os, "fsync", real)
    prepare_text.main([str(a) for a in asked])
    assert sentences(tmp_path / "out", "train", bpe) == expected()


@pytest.mark.skipif(not GPT2.is_dir(), reason=f"needs the GPT-2 BPE in {GPT2}")
def test_real_text_has_fairseqs_tokens(tmp_path):
    dictionary = Dictionary.load(str(GPT2 / "dict.txt"))
    with gzip.open(SHARED / "text" / "wiki_valid.txt.gz", "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file][:300]
    source = write(tmp_path / "a.txt", "\n".join(lines) + "\n")
    valid = write(tmp_path / "v.txt", "v\n")
    out = prepare(
        tmp_path / "out", GPT2, "--train", source, "--valid", valid, "--dictionary", GPT2 / "dict.txt"
    )
    oracle = get_encoder(str(GPT2 / "encoder.json"), str(GPT2 / "vocab.bpe"))
    dataset = data_utils.load_indexed_dataset(str(out / "train"), dictionary)
    wanted = [[dictionary.index(str(i)) for i in oracle.encode(line.replace("\u200e", ""))] for line in lines]
    if lines[-1]:
        wanted.append([])  # the end of the last document
    assert len(dataset) == len(wanted)
    for i, ids in enumerate(wanted):
        assert np.array_equal(dataset[i].numpy(), [*ids, dictionary.eos()])


def test_no_file_of_ours_is_taken_for_another(tmp_path, bpe):
    source = write(tmp_path / "a.txt", paragraphs_text())
    write(tmp_path / "out" / "dict.txt", "a 1\n")
    message = refusal(tmp_path / "out", "--bpe", bpe, "--train", source)
    assert "binarised data that this program did not make" in message
    with pytest.raises(PreparationError, match="no such file"):
        documents.files_in([tmp_path / "gone"])
