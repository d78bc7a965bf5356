"""Prepares molecules for pretrain_smiles.sh: checks, tokenises, splits and binarises them for fairseq.

    python scripts/prepare_smiles.py data-bin/smiles --train zinc.txt.gz chembl.csv --valid test.smi
    python scripts/prepare_smiles.py data-bin/unimol --train train.lmdb --valid valid.lmdb --workers 16

Reads tables (.csv, .tsv, .tab, or any text whose first line has --smiles-column), other text with a
SMILES first in each line, these also as .gz, .bz2 or .xz, and Uni-Mol's .lmdb files. Molecules that cannot be
used are listed in rejected.tsv with file, line and reason. The result does not depend on --workers.
"""

import hashlib
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import rdkit
from lib.command_line import UserError, argument_parser, counted, script, whole
from lib.data.binarise import (
    Encoded,
    Rejection,
    add_corpus_arguments,
    binarise,
    files_given,
    show_result,
)
from lib.data.frames import TableFormat, add_table_arguments, column_of, frames_of
from lib.data.lmdb_reader import LMDB, decode_value, lmdb_file, lmdb_items
from lib.files import claim, sha256

from fs_plugins.data.molecules import canonical_smiles, parse_molecule
from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.data.vocabulary import copy_dictionary, dictionary_file, read_dictionary
from fs_plugins.files import new_folder


class Record(NamedTuple):
    """A molecule of a file."""

    line: str  # number from 1, or key, in its file
    content: str | bytes  # the SMILES; of an LMDB file the value


def records_in(path: Path, form: TableFormat) -> Iterator[Record]:
    """Yields the molecules of a file, in order."""
    if path.suffix.lower() in LMDB:
        for key, value in lmdb_items(path):
            yield Record(key.decode("ascii", "backslashreplace"), value)
        return
    for frame in frames_of(path, form):
        yield from map(Record, map(str, frame.index), frame[column_of(frame, form.column, path)])


@dataclass(frozen=True)
class SmilesEncoder:
    """Makes sentences of molecules."""

    canonical: bool  # write each molecule as RDKit does
    # {symbol: id} of a given dictionary; molecules with other tokens are rejected. None: any token.
    ids: dict[str, int] | None
    max_tokens: int | None  # the most tokens of a molecule, with <s> and </s>; None: no limit

    def __call__(self, path: Path, record: Record) -> Encoded:
        line, content = record
        text = "" if isinstance(content, bytes) else content.strip()
        try:
            text = text or (decode_value(content)["smi"] if isinstance(content, bytes) else "")
            canonical = canonical_smiles(parse_molecule(text), text)
            tokens = tokenize(canonical if self.canonical else text)
        except ValueError as error:
            return Encoded(rejections=[Rejection(line, f"invalid SMILES: {error}", text)])
        unknown = [token for token in tokens if self.ids is not None and token not in self.ids]
        if unknown:
            fault = f"unknown token: {unknown[0]!r} is not in the dictionary"
            return Encoded(rejections=[Rejection(line, fault, text)])
        if self.max_tokens is not None and len(tokens) + 2 > self.max_tokens:
            fault = f"too long: {len(tokens) + 2} tokens with <s> and </s>"
            return Encoded(rejections=[Rejection(line, fault, text)])
        symbols = tokens if self.ids is None else [str(self.ids[token]) for token in tokens]
        digest = hashlib.blake2b(canonical.encode(), digest_size=8).digest()  # the same for any spelling
        return Encoded([" ".join(symbols)], int.from_bytes(digest, "big") / 2**64)


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("output", type=Path, help="folder to write: train, valid, dict.txt, rejected.tsv")
    add_corpus_arguments(parser, "molecules", valid_share=0.01)
    add_table_arguments(parser)
    smiles = "RDKit's canonical SMILES (default), as fine-tuning uses, or the strings as they are"
    add("--smiles", choices=("canonical", "as-given"), default="canonical", help=smiles)
    add("--dictionary", type=Path, metavar="FILE", help="dict.txt to use, or its folder; reject other tokens")
    add("--max-tokens", type=whole(3), metavar="N", help="reject longer molecules, counting <s> and </s>")
    args = parser.parse_args(argv)
    train, valid = [*map(lmdb_file, args.train)], [*map(lmdb_file, args.valid)]
    form = TableFormat.of(args)
    for path in (*train, *valid):  # faults of a whole file are found before any work
        with closing(records_in(path, form)) as records:  # an LMDB is open once at a time
            if next(records, None) is None:
                raise UserError(f"{path} has no molecules: it is empty, or has a header alone")
            if path.suffix.lower() not in LMDB:
                deque(records, maxlen=0)  # names a line that cannot be read
    settings = {"max_tokens": args.max_tokens, "smiles": args.smiles, **asdict(form)}
    settings["rdkit"] = rdkit.__version__
    inputs, ids = files_given(train=train, valid=valid), None
    with new_folder(args.output) as folder:
        if args.dictionary:
            ids = read_dictionary(args.dictionary).indices
            inputs["--dictionary"] = sha256(dictionary_file(args.dictionary))
            copy_dictionary(args.dictionary, folder / "dict.txt")
        claim(folder, settings, inputs, sys.argv)
        result = binarise(
            folder,
            train,
            valid,
            partial(records_in, form=form),
            SmilesEncoder(args.smiles == "canonical", ids, args.max_tokens),
            corpus="smiles",
            valid_share=args.valid_share,
            workers=args.workers,
            build_dictionary=not args.dictionary,
        )
    show_result(result, args.output, "molecule")
    print(f"dictionary: {counted(result['symbols'], 'symbol')}")
