"""Exported models against fairseq's: features and marginals; in a process of their own. Losses and
gradients are in test_trainer.py."""

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from fs_plugins.checkpoint import load_checkpoint
from fs_plugins.inference.masked_prediction import MaskedPredictor
from tests.support import builders
from tests.support.builders import CTC, KINDS, WORDS

SYMBOLS = builders.dictionary(WORDS)
PAD, MASK = SYMBOLS.pad(), SYMBOLS.index("<mask>")


@pytest.fixture(scope="module")
def batch() -> dict:
    """Sentences with masks, some of them kept or replaced by another word, one without </s>, one without
    masks."""
    sentences = [
        builders.sentence(SYMBOLS, 7, [2, 5]),
        builders.sentence(SYMBOLS, 4, [1, 2, 4], seed=1),
        builders.sentence(SYMBOLS, 6, [3, 6], seed=2, end=False),
        builders.sentence(SYMBOLS, 3, [], seed=3),
    ]
    sentences[0][0][5] = sentences[0][1][5]  # kept
    sentences[1][0][4] = 9  # replaced
    return builders.sample(SYMBOLS, sentences)


@pytest.fixture(scope="module")
def inputs(batch, tmp_path_factory) -> dict[str, str]:
    """Files with the batch as transformers has it, with labels and without."""
    place = tmp_path_factory.mktemp("inputs")
    tokens, target = batch["net_input"]["src_tokens"], batch["target"]
    given = {"input_ids": tokens, "attention_mask": (tokens != PAD).long()}
    labels = target.masked_fill(target == PAD, -100)
    torch.save(given, place / "plain.pt")
    torch.save({**given, "labels": labels}, place / "labelled.pt")
    torch.save({"input_ids": F.pad(tokens, (0, 5), value=PAD)}, place / "padded.pt")
    torch.save({**given, "output_hidden_states": True}, place / "hiddens.pt")
    return {path.stem: str(path) for path in place.iterdir()}


@pytest.fixture(scope="module")
def results(folders, inputs, run_outside, tmp_path_factory) -> dict:
    """(kind, inputs) -> the result of AutoModelForMaskedLM; (kind, "encoder") that of AutoModel."""
    jobs = {}
    for kind, folder in folders.items():
        common = {"folder": folder, "auto": "AutoModelForMaskedLM"}
        jobs |= {(kind, name): {**common, "inputs": inputs[name]} for name in ("plain", "labelled", "padded")}
        jobs[kind, "padded"]["options"] = {"attn_implementation": "eager"}
        encoder = {"auto": "AutoModel", "inputs": inputs["hiddens"], "partial": True}
        jobs[kind, "encoder"] = {"folder": folder, **encoder}
    place = tmp_path_factory.mktemp("outside")
    (place / "jobs.json").write_text(json.dumps(list(jobs.values()), default=str))
    run_outside(place, Path(__file__).with_name("outsider.py"), "jobs.json", "results.pt")
    return dict(zip(jobs, torch.load(place / "results.pt", weights_only=True), strict=True))


@pytest.fixture(scope="module")
def models(checkpoints) -> dict:
    return {kind: load_checkpoint(path, device="cpu").model for kind, path in checkpoints.items()}


def times_of(kind: str) -> int:
    return KINDS[kind][2].get("repeat_times", 1)


def at(mask, values):
    return values[mask].float()


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_features(results, models, batch, kind):
    tokens, times = batch["net_input"]["src_tokens"], times_of(kind)
    outputs, is_token = results[kind, "encoder"]["outputs"], tokens != PAD
    features = outputs["last_hidden_state"]
    assert features.shape == (*tokens.shape, 32)
    expected = models[kind].token_features(tokens.repeat_interleave(times, dim=1))[0][:, ::times]
    torch.testing.assert_close(at(is_token, features), at(is_token, expected), rtol=0, atol=1e-5)
    assert len(outputs["hidden_states"]) == 3
    assert torch.equal(outputs["hidden_states"][-1], features)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_logits_at_masks_are_the_probes(results, models, batch, kind):
    """Without labels: the <mask>s alone are predicted, from the tokens as they are given."""
    _, criterion, _ = KINDS[kind]
    tokens = batch["net_input"]["src_tokens"]
    outputs = results[kind, "plain"]["outputs"]
    masked = tokens == MASK
    predictor = MaskedPredictor(models[kind], copies=times_of(kind), ctc=criterion == CTC)
    expected = predictor.token_log_probs(tokens, masked)
    log_probs = outputs["logits"][masked].log_softmax(-1)
    torch.testing.assert_close(log_probs.exp(), expected.exp(), rtol=0, atol=1e-5)
    possible = expected > -20
    torch.testing.assert_close(log_probs[possible], expected[possible], rtol=1e-4, atol=1e-4)
    if criterion != "masked_lm":  # normalised as they are
        torch.testing.assert_close(outputs["logits"][masked], log_probs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_whole_and_padding_and_attention_implementation_change_nothing(results, batch, kind):
    assert [results[kind, name]["faults"] for name in ("plain", "labelled", "padded", "encoder")] == [[]] * 4
    assert results[kind, "plain"]["class"] == "ExLMForMaskedLM"
    is_token = batch["net_input"]["src_tokens"] != PAD
    logits = results[kind, "plain"]["outputs"]["logits"]
    changed = results[kind, "padded"]["outputs"]["logits"][:, : logits.shape[1]]
    torch.testing.assert_close(at(is_token, changed), at(is_token, logits), rtol=1e-4, atol=1e-4)
