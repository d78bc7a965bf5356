"""A BPE of one's own, trained on what prepare_text.py reads, serves it."""

import pytest
import train_bpe
from recipes.corpora.bpe import Bpe

from tests.scripts.test_prepare_text import CORPUS, expected, paragraphs_text, prepare, wiki_text, write


def main(*arguments) -> None:
    train_bpe.main([str(a) for a in arguments])


def test_trained_and_used(tmp_path):
    source = write(tmp_path / "wiki.gz", wiki_text())
    for name in ("a", "b"):
        main(tmp_path / name, source, "--vocabulary", 320)
    first, second = ((tmp_path / name / "tokenizer.json").read_bytes() for name in ("a", "b"))
    assert first == second
    bpe = Bpe(tmp_path / "a")
    [ids] = bpe.encode(["The thing 3 is in the inn"])
    tokens = [bpe.symbols[i] for i in ids]
    assert "".join(tokens) == "ĠTheĠthingĠ3ĠisĠinĠtheĠinn" and len(tokens) < 15
    assert not any("Document" in symbol for symbol in bpe.symbols if symbol)  # a title is no text
    out = prepare(tmp_path / "out", tmp_path / "a", "--train", source, "--valid", write(tmp_path / "v", "v"))
    from fairseq.data import Dictionary, data_utils

    dictionary = Dictionary.load(str(out / "dict.txt"))
    dataset = data_utils.load_indexed_dataset(str(out / "train"), dictionary)
    found = [
        bpe.tokenizer.decode([bpe.symbols.index(dictionary[j]) for j in s[:-1].tolist()]) for s in dataset
    ]
    assert [text.strip() for text in found] == expected()


def test_a_limit_is_shared_by_the_files(tmp_path):
    from recipes.corpora.documents import files_in

    files = [write(tmp_path / f"{i}.txt", paragraphs_text()) for i in range(2)]
    found = list(train_bpe.paragraphs(files_in(files), 1e-5))
    assert len(found) == 2 * 2 * len(CORPUS)  # a block of each, whatever the limit


def test_what_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="give --vocabulary 300 or more"):
        main(tmp_path, write(tmp_path / "a.txt", "x\n"), "--vocabulary", 10)
    with pytest.raises(SystemExit, match="no such file or folder"):
        main(tmp_path, tmp_path / "gone")
