"""Prepares molecules for pretrain_smiles.sh: checks, tokenises, splits and binarises them for fairseq.

    python scripts/prepare_smiles.py data-bin/smiles --train zinc.txt.gz chembl.csv --valid test.smi
    python scripts/prepare_smiles.py data-bin/unimol --train train.lmdb --valid valid.lmdb --workers 16

Reads .txt (one SMILES per line), .smi and .smiles (SMILES, then a name), tables (.csv, .tsv; a .txt whose
first line has --smiles-column), these also as .gz, .bz2 or .xz, .parquet, and Uni-Mol's .lmdb files.
Molecules that cannot be used are listed in rejected.tsv with file, line and reason. The result does not
depend on --workers.
"""

import hashlib
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import lib  # noqa: F401  (finds the environment)
import rdkit
from lib.command_line import argument_parser, counted, script, whole
from lib.data.binarise import EncodedBlock, Rejection, binarise, draft_of
from lib.data.datasets import add_corpus_arguments, inputs_of, show_result
from lib.data.lmdb_reader import LMDB, decode_value, lmdb_file
from lib.data.molecules import Record, records_in
from lib.data.tables import TableFormat, add_table_arguments

from fs_plugins.data.molecules import canonical_smiles, parse_molecule
from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.data.vocabulary import read_dictionary

EOS = "</s>"


@dataclass(frozen=True)
class SmilesEncoder:
    """Makes sentences of molecules."""

    canonical: bool  # write each molecule as RDKit does
    # {symbol: id} of a given dictionary; molecules with other tokens are rejected. None: any token.
    ids: dict[str, int] | None
    max_tokens: int | None  # the most tokens of a molecule, with <s> and </s>; None: no limit

    def __call__(self, path: Path, records: list[Record]) -> EncodedBlock:
        block, lmdb = EncodedBlock(), path.suffix.lower() in LMDB
        for record in records:
            text, fault = "" if lmdb else record.content.decode(errors="backslashreplace"), record.fault
            try:
                text = decode_value(record.content)["smi"] if lmdb else text
                canonical = canonical_smiles(parse_molecule(text), text)
                tokens = [*tokenize(canonical if self.canonical else text), EOS]
                unknown = [token for token in tokens if self.ids is not None and token not in self.ids]
                if unknown:
                    fault = fault or f"unknown token: {unknown[0]!r} is not in the dictionary"
                elif self.max_tokens is not None and len(tokens) + 1 > self.max_tokens:
                    fault = fault or f"too long: {len(tokens) + 1} tokens with <s> and </s>"
            except ValueError as error:
                fault = fault or f"invalid SMILES: {error}"
            if fault:
                block.rejections.append(Rejection(record.line, fault, text))
                continue
            block.sentences.append(tokens if self.ids is None else [self.ids[token] for token in tokens])
            digest = hashlib.blake2b(canonical.encode(), digest_size=8).digest()
            block.hashes.append(int.from_bytes(digest, "big") / 2**64)  # the same for any spelling
        return block


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
    args.train, args.valid = list(map(lmdb_file, args.train)), list(map(lmdb_file, args.valid))
    form = TableFormat.of(args)
    read = partial(records_in, form=form)
    for path in (*args.train, *args.valid):  # faults of a whole file are found before any work
        next(read(path), None)
    inputs = inputs_of({"--train": args.train, "--valid": args.valid})
    settings = {"max_tokens": args.max_tokens, "smiles": args.smiles, **asdict(form)}
    settings["rdkit"] = rdkit.__version__
    ids = read_dictionary(args.dictionary).indices if args.dictionary else None
    encoder = SmilesEncoder(args.smiles == "canonical", ids, args.max_tokens)
    with draft_of(args.output, settings, inputs, args.dictionary) as folder:
        result = binarise(
            folder,
            args.train,
            args.valid,
            read,
            encoder,
            corpus="smiles",
            valid_share=args.valid_share,
            workers=args.workers,
            build_dictionary=not args.dictionary,
        )
    show_result(result, args.output, "molecule")
    print(f"dictionary: {counted(result['symbols'], 'symbol')}")
