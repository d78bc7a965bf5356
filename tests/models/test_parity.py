"""The authors' release, recorded on fixed weights: the same checkpoint gives the same loss and gradients."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss

from fs_plugins.criterions.nat_ctc_loss_mlm import NatCtcLossMLM
from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM
from fs_plugins.models.architectures import SIZES
from tests.support import builders

PLACE = Path(__file__).resolve()
# ExLM's, in every clone: without the positions that no node is at; gradients in half precision, scaled to 1
COMMITTED = PLACE.with_name("authors_dag.pt")
MANIFEST = PLACE.parents[3] / "shared" / "data" / "parity" / "authors_numbers.pt"  # all, as recorded
MAX_POSITIONS = 2048
CRITERIA = {"dag": NatDagLossMLM, "ctc": NatCtcLossMLM}
CRITERIA["mlm"] = lambda task: MaskedLmLoss(MaskedLmConfig(tpu=False), task)


def whole(tensors: dict) -> dict:
    """With a row for each position."""
    name = "encoder.link_positional.weight"
    missing = MAX_POSITIONS + 2 - len(tensors[name])
    return {**tensors, name: F.pad(tensors[name], (0, 0, 0, missing))}


@pytest.fixture(scope="module")
def record():
    found = torch.load(COMMITTED, weights_only=True)
    [dag] = found["cases"]
    gradients = {name: values.float() * scale for name, (values, scale) in dag["grads"].items()}
    dag |= {"state": whole(dag["state"]), "grads": whole(gradients)}
    if MANIFEST.exists():
        cases = torch.load(MANIFEST, weights_only=True)["cases"]
        found["cases"] = [dag, *(c for c in cases if c["kind"] != "dag")]
    return found


def case(record, kind):
    found = [recorded for recorded in record["cases"] if recorded["kind"] == kind]
    if not found:
        pytest.skip(f"the numbers of the authors' {kind} model are in no clone, but in ../shared/data/parity")
    return found[0]


def flags_of(recorded) -> dict:
    sizes = dict(zip(SIZES, (recorded[name] for name in ("layers", "dim", "ffn", "heads")), strict=True))
    return {**sizes, "encoder_normalize_before": True, "max_positions": MAX_POSITIONS}


@pytest.mark.parametrize("kind", CRITERIA)
def test_loss_and_gradients_are_those_of_the_release(record, kind):
    recorded = case(record, kind)
    symbols = builders.dictionary(record["symbols"][4:-1])
    assert symbols.symbols == record["symbols"]
    arch = "p_roberta_base" if kind == "mlm" else "p_roberta_ext_denselink_base"
    task, model = builders.task(symbols), builders.model(arch, symbols, **flags_of(recorded))
    if kind == "dag":
        model.register_classification_head("h", num_classes=3)
        assert model.encoder.k == recorded["k"]
    model.load_state_dict(recorded["state"], strict=True)
    criterion = CRITERIA[kind](task)
    batch = {"net_input": {"src_tokens": recorded["src"]}, "target": recorded["tgt"]}
    loss, sample_size, _ = criterion(model, {**batch, "ntokens": 1, "nsentences": len(recorded["src"])})
    loss = loss / sample_size
    assert loss.item() == pytest.approx(float(recorded["loss"]), rel=1e-5)
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert set(recorded["grads"]) == set(gradients)
    for name, expected in recorded["grads"].items():
        if name.endswith("key_linear.bias"):  # a softmax is blind to it: zero but for rounding
            assert expected.norm() < 1e-6 and gradients[name].norm() < 1e-6
            continue
        assert (gradients[name] - expected).norm() < 1e-3 * expected.norm(), name
    if kind == "dag":
        unmasked = recorded["src"].masked_fill(recorded["src"] == symbols.index("<mask>"), 10)
        logits, _ = model(unmasked, classification_head_name="h")
        torch.testing.assert_close(logits, recorded["cls"], rtol=0, atol=1e-4)
