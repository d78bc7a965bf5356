"""Damaged files for the readers: each has to be read whole, or refused by an error that names the file.

    python -m tests.tools.fuzz ../shared/data                          10,000 files for each reader
    python -m tests.tools.fuzz ../shared/data --count 500 glue squad   fewer, for some

The files are excerpts of real ones, cut, doubled, re-encoded, with bytes flipped or replaced, plain and
gzip. A fault is another exception, an error without the file's name, or a file of which fewer rows are read,
skipped and reported than it has. Faulty inputs are kept in a folder, which is named; exit status 1 if there
are any.
"""

import argparse
import collections
import gzip
import json
import logging
import random
import re
import sys
import tempfile
import traceback
from pathlib import Path

from lib.checkpoints import read_checkpoint
from lib.command_line import UserError
from lib.corpora.readers import records_in
from lib.dictionaries import SPECIAL, read_dictionary
from lib.glue.files import read_split
from lib.glue.tasks import TASKS
from lib.moleculenet.reading import read_csv

from fs_plugins.data.squad import read_squad
from tests import builders

ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252", "utf-32")
BYTES = b'\x00\n\r\t,"\\ {}[]:\xff\xc3\xe2\x80\xed\x1f\x8b'


def damaged(content: bytes, rng: random.Random) -> bytes:
    """With one to three faults."""
    for _ in range(rng.randint(1, 3)):
        size = len(content)
        a, b = sorted(rng.randrange(size + 1) for _ in range(2))
        b = min(b, a + rng.choice((1, 10, 1000, size)))
        kind = rng.randrange(8)
        if kind == 0:
            content = content[:a]
        elif kind == 1:
            content = content[:a] + content[b:]
        elif kind == 2:
            content = content[:b] + content[a:]
        elif kind == 3:
            content = content.decode("utf-8", "replace").encode(rng.choice(ENCODINGS), "replace")
        elif kind == 4:
            content = content.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n")))
        elif size:
            changed = bytearray(content)
            for _ in range(rng.choice((1, 1, 2, 8))):
                changed[rng.randrange(size)] = rng.choice(BYTES) if kind == 5 else rng.randrange(256)
            content = bytes(changed)
    return content


def lines_of(content: bytes) -> int:
    return len(content.removesuffix(b"\n").split(b"\n")) if content else 0


def smiles(path: Path, content: bytes) -> bool:
    found, is_table = len(list(records_in(path, "smiles"))), ".csv" in path.name
    if is_table and (b'"' in content or b"\r" in content):  # a row may be several lines
        return True
    return found == lines_of(content) - is_table


def table(path: Path, content: bytes) -> bool:
    columns = (
        {"classification": False, "label_columns": ["pIC50"]}
        if b"pIC50" in content
        else {"ignored": ["num", "name"]}
    )
    found = read_csv(path, "mol" if b"pIC50" in content else "smiles", **columns)
    if b'"' in content or b"\r" in content:  # a row may be several lines
        return True
    return len(found.rows) + len(found.skipped) == lines_of(content) - 1


def glue(path: Path, content: bytes) -> bool:
    task = TASKS[path.name.split(".")[0]]
    rows, skipped = read_split(path, task, "train", True)
    return len(rows) == lines_of(content) - (not task.headless) - len(skipped)


def squad(path: Path, content: bytes) -> bool:
    found = read_squad([path])
    articles = json.loads(content)["data"]
    return len(found.questions) == sum(len(p["qas"]) for article in articles for p in article["paragraphs"])


def dictionary(path: Path, content: bytes) -> bool:
    return len(read_dictionary(path)) - len(SPECIAL) == lines_of(
        content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    )


def checkpoint(path: Path, content: bytes) -> bool:
    found = read_checkpoint(path)
    return found.entries == 25 and "exlm_base" in found.flags  # else it is another model


def excerpts(data: Path, rng: random.Random) -> dict:
    """{reader: [(name, content)]} of real files, some rows of each."""

    def rows(name: str, count: int = 20, head: int = 0) -> bytes:
        with gzip.open(data / name) if name.endswith(".gz") else (data / name).open("rb") as file:
            lines = [line for _, line in zip(range(3000), file, strict=False)]
        return b"".join(lines[:head] + sorted(rng.sample(lines[head:], count)))

    with gzip.open(data / "squad2/dev-v2.0.json.gz") as file:
        articles = json.load(file)["data"]
    questions = [
        {"title": a["title"], "paragraphs": [{**p, "qas": p["qas"][:3]} for p in a["paragraphs"][:2]]}
        for a in articles[:6]
    ]
    words = builders.dictionary(20)
    flags = {**builders.SMALL, "arch": "exlm_base", "max_positions": 16}
    with tempfile.TemporaryDirectory() as folder:
        model = builders.model("exlm_base", words, **{k: v for k, v in flags.items() if k != "arch"})
        task = {"_name": "masked_lm", "data": folder}
        path = builders.save_checkpoint(
            Path(folder) / "c.pt", model, flags, task, {"_name": "nat_dag_loss_mlm"}
        )
        saved = path.read_bytes()
    return {
        smiles: [("a.smi", rows("smiles/druglike_mix.txt.gz")), ("a.txt", rows("smiles/moses_test.txt.gz"))]
        + [("a.csv", rows("moleculenet/BBBP.csv.gz", head=1))],
        table: [("BBBP.csv", rows("moleculenet/BBBP.csv.gz", head=1))]
        + [("Tox21.csv", rows("moleculenet/Tox21.csv.gz", head=1).replace(b"mol_id", b"name"))]
        + [("BACE.csv", rows("moleculenet/BACE.csv.gz", 5, head=1))],
        glue: [
            (f"{name}.tsv", rows(f"glue/{name}/train.tsv.gz", head=0 if TASKS[name].headless else 1))
            for name in ("CoLA", "SST-2", "MRPC", "RTE", "STS-B", "QNLI", "MNLI")
        ],
        squad: [
            ("s.json", json.dumps({"version": "v2.0", "data": questions}, ensure_ascii=x).encode())
            for x in (0, 1)
        ],
        dictionary: [("dict.txt", rows("gpt2_bpe/dict.txt", 40))],
        checkpoint: [("c.pt", saved)],
    }


def outcome(reader, path: Path, content: bytes) -> str:
    """ "read", "refused", or what is wrong."""
    try:
        return "read" if reader(path, content) else "fewer rows than the file has"
    except (UserError, ValueError) as error:
        if type(error) not in (UserError, ValueError):
            return f"{type(error).__name__}: {traceback.format_exc().splitlines()[-1]}"
        return "refused" if str(path) in str(error) else f"without the file's name: {error}"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}: {error}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("readers", nargs="*", metavar="READER")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    rng, place, status = random.Random(args.seed), Path(tempfile.mkdtemp(prefix="exlm-fuzz-")), 0
    for reader, files in excerpts(args.data, rng).items():
        if args.readers and reader.__name__ not in args.readers:
            continue
        counts, examples = collections.Counter(), {}
        for i in range(args.count):
            name, content = rng.choice(files)
            written = content = damaged(content, rng)
            path = place / name
            if reader not in (dictionary, checkpoint) and rng.random() < 0.3:
                path = place / f"{name}.gz"
                written = gzip.compress(content, mtime=0)
                if rng.random() < 0.5:
                    written = damaged(written, rng)
            path.write_bytes(written)
            if written != gzip.compress(content, mtime=0) and path.suffix == ".gz":
                try:
                    content = gzip.decompress(written)
                except Exception:
                    content = b""
            found = outcome(reader, path, content)
            kind = found if found in ("read", "refused") else re.sub(r"[0-9]+|'.*?'|\(.*", "N", found)[:120]
            counts[kind] += 1
            if kind not in ("read", "refused") and kind not in examples:
                examples[kind] = f"{found[:300]} ({place / f'{reader.__name__}-{i}-{path.name}'})"
                path.rename(place / f"{reader.__name__}-{i}-{path.name}")
            path.unlink(missing_ok=True)
        print(f"{reader.__name__}: {args.count} files, {counts['read']} read, {counts['refused']} refused")
        for kind, example in examples.items():
            status = 1
            print(f"    {counts[kind]} times {example}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
