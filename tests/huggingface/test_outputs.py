"""Exported models against fairseq's: features and marginals. Losses and gradients are in test_trainer.py."""

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from fs_plugins.checkpoint import Checkpoint, load_checkpoint
from fs_plugins.inference.masked_prediction import MaskedPredictor
from tests.support import builders
from tests.support.builders import KINDS, WORDS

SYMBOLS = builders.dictionary(WORDS)
SENTENCES = [  # the last but one without </s>, the last one without masks
    builders.sentence(SYMBOLS, 7, [2, 5]),
    builders.sentence(SYMBOLS, 4, [1, 2, 4], seed=1),
    builders.sentence(SYMBOLS, 6, [3, 6], seed=2, end=False),
    builders.sentence(SYMBOLS, 3, [], seed=3),
]
SENTENCES[0][0][5] = SENTENCES[0][1][5]  # kept
SENTENCES[1][0][4] = 9  # replaced
TOKENS = builders.sample(SYMBOLS, SENTENCES)["net_input"]["src_tokens"]
IS_TOKEN = TOKENS.ne(SYMBOLS.pad())
INPUTS = {"input_ids": TOKENS, "attention_mask": IS_TOKEN.long()}


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def loaded(kind, checkpoints) -> Checkpoint:
    return load_checkpoint(checkpoints[kind], device="cpu")


@torch.no_grad()
def test_features(kind, folders, load, loaded):
    outputs = load("AutoModel", folders[kind])(**INPUTS, output_hidden_states=True)
    features = outputs.last_hidden_state
    assert features.shape == (*TOKENS.shape, 32)
    times = loaded.copies
    expected = loaded.model.features(TOKENS.repeat_interleave(times, dim=1))[:, ::times]
    torch.testing.assert_close(features[IS_TOKEN], expected[IS_TOKEN], rtol=0, atol=1e-5)
    assert len(outputs.hidden_states) == 3
    assert torch.equal(outputs.hidden_states[-1], features)


@torch.no_grad()
def test_logits_at_masks_are_the_probes(kind, folders, load, loaded):
    """Without labels: the <mask>s alone are predicted, from the tokens as they are given."""
    masked = TOKENS.eq(SYMBOLS.index("<mask>"))
    logits = load("AutoModelForMaskedLM", folders[kind])(**INPUTS).logits[masked]
    predictor = MaskedPredictor(loaded.model, copies=loaded.copies, ctc=kind == "ctc")
    expected, log_probs = predictor.token_log_probs(TOKENS, masked), logits.log_softmax(-1)
    torch.testing.assert_close(log_probs.exp(), expected.exp(), rtol=0, atol=1e-5)
    possible = expected > -20
    torch.testing.assert_close(log_probs[possible], expected[possible], rtol=1e-4, atol=1e-4)
    if loaded.k:  # normalised as they are
        torch.testing.assert_close(logits, log_probs, rtol=0, atol=1e-4)


@torch.no_grad()
def test_weights_are_whole_and_padding_and_attention_implementation_change_nothing(kind, folders, load):
    model, info = load("AutoModelForMaskedLM", folders[kind], output_loading_info=True)
    assert not any(info.values())
    assert len([*model.named_buffers()]) == 1  # the frequencies, which loading has to compute
    state = model.state_dict()
    for name, value in load_file(folders[kind] / "model.safetensors").items():
        assert torch.equal(state[name], value), name
    eager = load("AutoModelForMaskedLM", folders[kind], attn_implementation="eager")
    padded = eager(F.pad(TOKENS, (0, 5), value=SYMBOLS.pad())).logits[:, : TOKENS.shape[1]]
    expected = model(**INPUTS).logits[IS_TOKEN]
    torch.testing.assert_close(padded[IS_TOKEN], expected, rtol=1e-4, atol=1e-4)
