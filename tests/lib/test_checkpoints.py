"""What GLUE, SQuAD and MoleculeNet read of a checkpoint before they train, and what they refuse."""

import pytest
import torch
from lib.checkpoints import (
    EMBEDDINGS,
    check_dictionary,
    read_checkpoint,
)
from lib.command_line import UserError

SYMBOLS = ["a", "b", "c"]


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_what_is_read(saved_checkpoint, tmp_path, embedding):
    found = read_checkpoint(saved_checkpoint(embedding=embedding))
    assert (found.entries, found.symbols) == (8, SYMBOLS)  # <s>, <pad>, </s>, <unk> and <mask> besides
    assert found.dictionary == str(tmp_path / "data" / "dict.txt")
    sizes = ("--encoder-layers", "2", "--encoder-embed-dim", "4", "--max-positions", "16")
    assert found.flags == (
        "--arch",
        "exlm_tiny",
        *sizes,
        "--ext-state-num",
        "3",
        "--encoder-normalize-before",
    )
    assert (found.repeat, found.expands, found.max_positions, found.tokens_per_sample) == (1, True, 16, 12)


def test_layers_before_the_expansion_are_the_pretrainings(saved_checkpoint):
    flags = read_checkpoint(saved_checkpoint(sizes={"expand_from_layer": 1})).flags
    assert flags[flags.index("--expand-from-layer") + 1] == "1"


def test_an_mlm_has_the_flags_of_an_mlm(saved_checkpoint):
    found = read_checkpoint(saved_checkpoint("mlm_tiny", task={"repeat_times": 4}))
    assert "--ext-state-num" not in found.flags and not found.expands and found.repeat == 4


def test_the_checkpoints_own_dictionary_comes_first(saved_checkpoint, tmp_path):
    held = ["<s>", "<pad>", "</s>", "<unk>", "x", "y", "z", "<mask>"]
    found = read_checkpoint(saved_checkpoint(task_state={"molecule_property": {"symbols": held}}))
    assert found.symbols == ["x", "y", "z"]
    with pytest.raises(UserError, match=r"d, line 1: 'a', where .* \(in itself\) has 'x'"):
        check_dictionary(found, SYMBOLS, "d", "...")


def test_dictionaries_that_are_not_the_checkpoints(saved_checkpoint, tmp_path):
    found = read_checkpoint(saved_checkpoint())
    assert check_dictionary(found, SYMBOLS, "d", "...") == "symbols"
    with pytest.raises(UserError, match=r"d has 9 entries .*model.pt 8: take its own"):
        check_dictionary(found, [*SYMBOLS, "d"], "d", "take its own")
    with pytest.raises(UserError, match=r"d, line 2: 'c', where .*dict.txt\) has 'b'.*: take its own"):
        check_dictionary(found, ["a", "c", "b"], "d", "take its own")


@pytest.mark.parametrize("text", ["a 1\nb 1\n", "a 1\na 1\nb 1\n", None])  # shorter, broken, gone
def test_a_folder_that_was_filled_anew_says_nothing(saved_checkpoint, tmp_path, text):
    path, file = saved_checkpoint(), tmp_path / "data" / "dict.txt"
    file.unlink() if text is None else file.write_text(text)
    found = read_checkpoint(path)
    assert found.symbols is None and check_dictionary(found, ["c", "b", "a"], "d", "...") == "size"


def test_what_is_no_checkpoint_of_ours(saved_checkpoint, tmp_path):
    def refusal(path) -> str:
        with pytest.raises(UserError) as error:
            read_checkpoint(path)
        return str(error.value)

    assert "is not there" in refusal(tmp_path / "none.pt")
    assert "is a folder: give a file in it" in refusal(tmp_path)
    whole = saved_checkpoint()
    (tmp_path / "empty.pt").write_bytes(b"")
    assert "empty.pt is cut short, or no checkpoint" in refusal(tmp_path / "empty.pt")
    (tmp_path / "cut.pt").write_bytes(whole.read_bytes()[:500])
    assert "cut.pt" in refusal(tmp_path / "cut.pt")
    assert "is a checkpoint of --arch roberta_base: this reads" in refusal(saved_checkpoint("roberta_base"))
    assert "it has no encoder.sentence_encoder.embed_tokens.weight" in refusal(
        saved_checkpoint(embedding="weight")
    )
    torch.save({**torch.load(saved_checkpoint()), "cfg": None}, tmp_path / "old.pt")
    assert "no flags of its run" in refusal(tmp_path / "old.pt")
    torch.save([1], tmp_path / "list.pt")
    assert "list.pt is not a checkpoint of fairseq-train" in refusal(tmp_path / "list.pt")
