"""The encoder of prepare_smiles.py: molecules are checked by RDKit, tokenised and split."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fs_plugins.data.molecules import canonical_smiles, parse_molecule
from fs_plugins.data.smiles_tokens import SmilesTokenError, tokenize
from lib.corpora.binarise import EncodedBlock, Rejection
from lib.corpora.indexed import packed
from lib.corpora.lmdb_reader import LmdbValueError, decode_value
from lib.corpora.molecules import LMDB, Record

EOS = "</s>"


class RejectedError(Exception):
    """A molecule that cannot be used: REASON or REASON: DETAIL."""


def is_validation(smiles: str, share: float) -> bool:
    """Determined by the string only: the same molecule is always in the same split."""
    digest = hashlib.blake2b(smiles.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


@dataclass(frozen=True)
class SmilesEncoder:
    """Makes sentences of molecules.

    Attributes:
        valid_files: the files whose molecules go to valid; those of other files go to train,
        valid_share: except this share of them, which goes to valid.
        canonical: write each molecule as RDKit does.
        ids: {symbol: id} of a given dictionary; molecules with other tokens are rejected. None: any token.
        max_tokens: the most tokens of a molecule, with <s> and </s>; None: no limit.
    """

    valid_files: frozenset[Path]
    valid_share: float
    canonical: bool
    ids: dict[str, int] | None
    max_tokens: int | None

    def __call__(self, path: Path, records: list[Record]) -> EncodedBlock:
        table = {EOS: 0} if self.ids is None else self.ids
        splits, rejections = {"train": [], "valid": []}, []
        for record in records:
            if path.suffix.lower() == LMDB:
                record = _unpickled(record)
            try:
                smiles, tokens = self.read(record)
            except RejectedError as error:
                text = record.content.decode("utf-8", errors="backslashreplace")
                rejections.append(Rejection(record.place, str(error), text))
                continue
            if self.ids is None:
                for token in tokens:
                    table.setdefault(token, len(table))
            valid = path in self.valid_files or is_validation(smiles, self.valid_share)
            splits["valid" if valid else "train"].append([table[token] for token in tokens])
        symbols = list(table) if self.ids is None else None
        return EncodedBlock({split: packed(found) for split, found in splits.items()}, rejections, symbols)

    def read(self, record: Record) -> tuple[str, list[str]]:
        """The molecule as it is kept, and its tokens with </s>.

        Raises:
            RejectedError: if it is not to be kept.
        """
        if record.fault:
            raise RejectedError(record.fault)
        if not record.content:
            raise RejectedError("empty line")
        try:
            text = record.content.decode()
            molecule = parse_molecule(text)
            smiles = canonical_smiles(molecule, text) if self.canonical else text
            tokens = [*tokenize(smiles), EOS]
        except UnicodeDecodeError as error:
            raise RejectedError(f"invalid UTF-8: byte {record.content[error.start]:#04x}") from error
        except SmilesTokenError as error:
            reason = f"{error.character!r} at position {error.position}"
            raise RejectedError(f"not a SMILES token: {reason}") from error
        except ValueError as error:
            raise RejectedError(f"invalid SMILES: {error}") from error
        if self.ids is not None and (unknown := [token for token in tokens if token not in self.ids]):
            raise RejectedError(f"unknown token: {unknown[0]!r} is not in the dictionary")
        if self.max_tokens is not None and len(tokens) + 1 > self.max_tokens:
            raise RejectedError(f"too long: {len(tokens) + 1} tokens with <s> and </s>")
        return smiles, tokens


def _unpickled(record: Record) -> Record:
    """The SMILES of a record of an LMDB file."""
    try:
        smiles = decode_value(record.content)["smi"]
    except LmdbValueError as error:
        return Record(record.place, b"", str(error))
    return Record(record.place, smiles.encode(errors="surrogateescape"))
