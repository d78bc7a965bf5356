"""Exported models, and new ones, in training: losses and gradients are those of fairseq."""

import math

import pytest
import torch
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from safetensors.torch import load_file

from fs_plugins.checkpoint import load_checkpoint
from fs_plugins.criterions.nat_ctc_loss_mlm import NatCtcLossMLM
from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM
from fs_plugins.custom_ops import library
from fs_plugins.huggingface import modeling_exlm, weights
from fs_plugins.huggingface.configuration_exlm import ExLMConfig
from tests.support import builders
from tests.support.builders import CTC, DAG, KINDS, TEXTS, WORDS

SYMBOLS = builders.dictionary(WORDS)


@pytest.mark.parametrize("kind", ["exlm", "ctc", "mlm", "repeated"])
def test_a_pad_that_was_drawn_at_random_is_an_unknown_token(kind, folders, load):
    """transformers' collator replaces a tenth of the chosen tokens by any token, ``<pad>`` included."""
    model, losses = load("AutoModelForMaskedLM", folders[kind]).eval(), []
    labels = torch.tensor([[-100, 7, 9, -100, -100, -100]])
    for drawn in (1, 3):
        tokens = torch.tensor([[0, drawn, 20, 6, 2, 1]])
        losses.append(model(tokens, attention_mask=torch.tensor([[1, 1, 1, 1, 1, 0]]), labels=labels).loss)
    assert losses[0] == losses[1]
    with pytest.raises(ValueError, match="padding before a token"):
        model(tokens.masked_fill(tokens == 3, 1), labels=labels)


@pytest.mark.parametrize(("kind", "rows"), [("exlm", 3 * 4), ("ctc", 3 * 4), ("mlm", 2), ("repeated", 3 * 2)])
def test_training_computes_the_logits_of_its_labels_alone(kind, rows, folders, load):
    model, seen = load("AutoModelForMaskedLM", folders[kind]), []
    model.encoder.lm_head.layer_norm.register_forward_hook(lambda *a: seen.append(a[-1][..., 0].numel()))
    labels = torch.tensor([[-100, -100, 7, 9, -100, -100]])
    tokens = torch.tensor([[0, 5, 20, 20, 6, 2]])
    expected = model.eval()(tokens, labels=labels)
    assert expected.logits.shape == (1, 6, 21)
    seen.clear()
    found = model.train()(tokens, labels=labels)
    assert seen == [rows] and found.logits is None
    torch.testing.assert_close(found.loss, expected.loss)


def masked_batch() -> dict:
    """Of sentences of different length, with masks, other tokens and kept ones, ``<s>`` and ``</s>`` too."""
    pairs = [builders.sentence(SYMBOLS, n, range(n % 3, n, 3), seed=n) for n in range(3, 15)]
    tokens, labels = (torch.nn.utils.rnn.pad_sequence(rows, True, 1) for rows in zip(*pairs, strict=True))
    seen, is_target, shown = tokens != 1, labels != 1, torch.arange(tokens.shape[1]) % 4
    tokens = torch.where(is_target & (shown == 1), labels, tokens)
    tokens = torch.where(is_target & (shown == 2), 7, tokens)
    return {
        "input_ids": tokens,
        "attention_mask": seen.long(),
        "labels": labels.masked_fill(~is_target, -100),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradients_are_those_of_fairseq(kind, folders, checkpoints, monkeypatch):
    """Of a model made by ExLMConfig, on the compiled operator."""
    batch = masked_batch()
    loaded, calls = load_checkpoint(checkpoints[kind]), []
    target = batch["labels"].masked_fill(batch["labels"] == -100, SYMBOLS.pad())
    tokens, target = (t.repeat_interleave(loaded.copies, dim=1) for t in (batch["input_ids"], target))
    sample = {"net_input": {"src_tokens": tokens}, "target": target}
    sample |= {"nsentences": len(tokens), "ntokens": int(batch["attention_mask"].sum())}
    task = builders.task(SYMBOLS)
    criterion = {DAG: NatDagLossMLM(task), CTC: NatCtcLossMLM(task)}.get(KINDS[kind][1])
    criterion = criterion or MaskedLmLoss(MaskedLmConfig(tpu=False), task)
    loss, sample_size, _ = criterion(loaded.model, sample)
    (loss / sample_size).backward()
    own = modeling_exlm.ExLMForMaskedLM(ExLMConfig.from_pretrained(folders[kind]))
    missing, unexpected = own.load_state_dict(load_file(folders[kind] / "model.safetensors"), strict=False)
    assert unexpected == [] and set(missing) <= {"encoder.lm_head.weight"}
    monkeypatch.setattr(library, "load", lambda name, load=library.load: calls.append(name) or load(name))
    result = own.train()(**batch).loss
    result.backward()
    assert len(calls) >= (KINDS[kind][1] == DAG and kind != "lattice")  # whose likelihood needs no operator
    torch.testing.assert_close(result, loss / sample_size, rtol=1e-5, atol=0)
    grads = {name: p.grad for name, p in loaded.model.named_parameters() if p.grad is not None}
    grads = weights.to_transformers(grads, None, loaded.has_transitions)
    named = dict(own.named_parameters())
    assert grads.keys() == {name for name in named if "state_" not in name or kind == "lattice"}
    for name, grad in grads.items():
        assert (named[name].grad - grad).norm() <= 1e-4 * grad.norm() + 1e-8, name


def test_weights_begin_as_those_of_fairseq():
    torch.manual_seed(1)
    symbols, sizes = builders.dictionary(3995), {"hidden_size": 64, "intermediate_size": 128}
    config = ExLMConfig(
        vocab_size=len(symbols),
        **sizes,
        num_hidden_layers=1,
        num_attention_heads=4,
        state_embedding_scale=1.0,
    )
    own = dict(modeling_exlm.ExLMForMaskedLM(config).named_parameters())
    flags = {"encoder_embed_dim": 64, "encoder_ffn_embed_dim": 128, "encoder_layers": 1}
    model = builders.exlm(symbols, **flags, state_embedding_scale=1.0)
    for name, value in weights.to_transformers(dict(model.named_parameters()), None, True).items():
        assert own[name].std().item() == pytest.approx(value.std().item(), rel=0.15, abs=1e-9), name
        assert own[name].mean().item() == pytest.approx(value.mean().item(), abs=0.2), name


@pytest.fixture
def trainer(load, folders, transformers, tmp_path):
    """trainer(kind, options, ...) -> transformers' for masked TEXTS."""

    def make(kind: str, options: dict, **more):
        tokenizer, model = load("AutoTokenizer", folders[kind]), load("AutoModelForMaskedLM", folders[kind])
        rows = [dict(tokenizer(text)) for text in TEXTS]
        options |= {"use_cpu": True, "report_to": [], "disable_tqdm": True}
        return transformers.Trainer(
            model,
            transformers.TrainingArguments(str(tmp_path), **options),
            train_dataset=rows,
            eval_dataset=rows,
            data_collator=transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.3),
            **more,
        )

    return make


def test_metrics_of_trainer_on_a_masked_lm(trainer):
    """Graphs of different sizes are no predictions to be joined."""
    seen = []
    metrics = {"compute_metrics": lambda given: seen.append(given.predictions.shape) or {}}
    found = trainer("exlm", {"per_device_eval_batch_size": 1}, **metrics).evaluate()
    assert math.isfinite(found["eval_loss"])
    assert seen == [(5, 16, 21)]


@pytest.mark.parametrize(
    ("kind", "said"), [("lattice", True), ("ctc", True), ("repeated", True), ("mlm", False)]
)
@pytest.mark.parametrize("loss", ["label_smoothing_factor", "compute_loss_func", "none"])
def test_labels_that_are_taken_away(loss, kind, said, trainer, transformers, caplog):
    """Of an MLM the loss is the one that was asked for."""
    transformers.utils.logging.warning_once.cache_clear()
    options = {"max_steps": 1, **({loss: 0.2} if loss == "label_smoothing_factor" else {})}
    mean = {"compute_loss_func": lambda outputs, labels, **_: outputs["logits"].mean()}
    trainer(kind, options, **(mean if loss == "compute_loss_func" else {})).train()
    assert any("without labels" in text for text in caplog.messages) == (said and loss != "none")
