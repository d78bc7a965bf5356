"""A BPE of one's own, trained on what prepare_text.py reads, serves it."""

import prepare_text
import train_bpe

from fs_plugins.data.text_codecs import read_bpe
from tests.support import builders
from tests.support.builders import corpus_sentences, json_text, write_file


def main(script, *arguments) -> None:
    assert script.main([str(a) for a in arguments]) == 0


def test_trained_and_used(tmp_path):
    source = write_file(tmp_path / "wiki.gz", json_text())
    for name in ("a", "b"):
        main(train_bpe, tmp_path / name, source, "--vocabulary", 320)
    first, second = ((tmp_path / name / "tokenizer.json").read_bytes() for name in ("a", "b"))
    assert first == second
    bpe = read_bpe(tmp_path / "a")
    tokens = bpe.encode("The thing 3 is in the inn", first=True)
    assert "".join(tokens) == "ĠTheĠthingĠ3ĠisĠinĠtheĠinn" and len(tokens) < 15
    assert not any("Document" in token for token in bpe.tokens)  # a title is no text
    (tmp_path / "a" / "tokenizer.json").rename(tmp_path / "mine.json")  # any name will do
    out, valid = tmp_path / "out", write_file(tmp_path / "v", "v")
    main(prepare_text, out, "--bpe", tmp_path / "mine.json", "--train", source, "--valid", valid)
    assert (out / "tokenizer.json").read_bytes() == second
    found = [bpe.decode(symbols) for symbols in builders.read_split(out, "train")]
    assert [text.strip() for text in found] == corpus_sentences()


def test_a_column_that_does_not_exist(tmp_path, refused):
    source = write_file(tmp_path / "a.jsonl", '{"query": "SELECT 1"}\n')
    assert "under 'text'" in refused(train_bpe.main, tmp_path / "bpe", source)
    main(train_bpe, tmp_path / "bpe", source, "--text-column", "query")
