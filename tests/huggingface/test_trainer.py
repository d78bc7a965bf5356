"""Exported models trained by transformers' Trainer and peft, and back in fairseq."""

import math

import pytest
import torch

from fs_plugins.checkpoint import load_checkpoint
from fs_plugins.huggingface.restore import restore
from tests import builders
from tests.builders import TEXTS, WORDS
from tests.huggingface.test_restore import states

SYMBOLS = builders.dictionary(WORDS)


@pytest.fixture
def trainer_of(transformers, tmp_path):
    """trainer_of(model, ...) -> the Trainer of two epochs."""

    def make(model, **options):
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path / "trainer"),
            num_train_epochs=2,
            per_device_train_batch_size=4,
            per_device_eval_batch_size=1,
            learning_rate=1e-3,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            seed=1,
            disable_tqdm=True,
            logging_steps=1,
        )
        return transformers.Trainer(model, arguments, **options)

    return make


@pytest.fixture
def trained(trainer_of):
    """trained(model, rows, ...) -> the Trainer, after its training."""

    def train(model, rows, **options):
        trainer = trainer_of(model, train_dataset=rows, **options)
        trainer.train()
        return trainer

    return train


def losses(trainer) -> list[float]:
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def rows_of(tokenizer, texts, labels) -> list[dict]:
    return [{**tokenizer(text), "label": label} for text, label in zip(texts, labels, strict=True)]


def test_fine_tuning_by_trainer_and_back(folders, corpus, load, trained, tmp_path):
    """Two epochs, saved, loaded again, taken back to fairseq: the same scores everywhere."""
    tokenizer = load("AutoTokenizer", folders["exlm"])
    model = load("AutoModelForSequenceClassification", folders["exlm"], num_labels=2)
    texts = [f"this is {'good' if i % 2 else 'bad'} news , and I am {i % 3 * 'very '}glad" for i in range(64)]
    labels = [i % 2 for i in range(64)]
    trainer = trained(model, rows_of(tokenizer, texts, labels), processing_class=tokenizer)
    assert len(losses(trainer)) == 32
    assert sum(losses(trainer)[-8:]) < sum(losses(trainer)[:8])
    trainer.save_model(str(tmp_path / "tuned"))
    inputs = tokenizer(TEXTS, return_tensors="pt", padding=True)
    expected = model.eval()(**inputs).logits
    again = load("AutoModelForSequenceClassification", tmp_path / "tuned").eval()
    assert load("AutoTokenizer", tmp_path / "tuned")(TEXTS)["input_ids"] == tokenizer(TEXTS)["input_ids"]
    torch.testing.assert_close(again(**inputs).logits, expected, rtol=0, atol=1e-6)
    back = load_checkpoint(restore(tmp_path / "tuned", tmp_path / "back.pt", corpus)).model
    scores, _ = back(inputs["input_ids"], classification_head_name="sentence_classification_head")
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["exlm", "ctc", "repeated"])
def test_pre_training_goes_on_by_trainer(
    kind, folders, checkpoints, transformers, corpus, load, trained, tmp_path
):
    tokenizer, model = load("AutoTokenizer", folders[kind]), load("AutoModelForMaskedLM", folders[kind])
    rows = [dict(tokenizer(text)) for text in TEXTS * 8]
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.3)
    trainer = trained(model, rows, data_collator=collator)
    assert sum(losses(trainer)[-4:]) < sum(losses(trainer)[:4]) and all(map(math.isfinite, losses(trainer)))
    trainer.save_model(str(tmp_path / "trained"))
    before, after = states(checkpoints[kind], restore(tmp_path / "trained", tmp_path / "back.pt", corpus))
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert "encoder.lm_head.weight" in moved and before.keys() == after.keys()
    assert ("encoder.gate_linear.weight" in moved) == (kind in ("exlm", "ctc"))  # trained, or initialised


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
    model.lm_head.decoder.register_forward_hook(lambda _, given, logits: seen.append(logits[..., 0].numel()))
    labels = torch.tensor([[-100, -100, 7, 9, -100, -100]])
    tokens = torch.tensor([[0, 5, 20, 20, 6, 2]])
    expected = model.eval()(tokens, labels=labels)
    assert expected.logits.shape == (1, 6, 21)
    seen.clear()
    found = model.train()(tokens, labels=labels)
    assert seen == [rows] and found.logits is None
    torch.testing.assert_close(found.loss, expected.loss)


def test_gradients_are_those_of_fairseq(folders, checkpoints, load):
    sentences = [builders.sentence(SYMBOLS, 7, [2, 5]), builders.sentence(SYMBOLS, 4, [1, 2], seed=1)]
    batch = builders.sample(SYMBOLS, sentences)
    model = load_checkpoint(checkpoints["exlm"]).model
    loss, sample_size, _ = builders.criterion(SYMBOLS)(model, batch)
    (loss / sample_size).backward()
    ours = load("AutoModelForMaskedLM", folders["exlm"])
    labels = batch["target"].masked_fill(batch["target"] == SYMBOLS.pad(), -100)
    ours(batch["net_input"]["src_tokens"], labels=labels).loss.backward()
    for theirs, name in (
        ("encoder.sentence_encoder.embed_tokens.weight", "model.embed_tokens.weight"),
        ("encoder.query_linear.weight", "graph.query_linear.weight"),
        ("encoder.link_positional.weight", "graph.link_positional.weight"),
        ("encoder.sentence_encoder.layers.0.fc1.weight", "model.layers.0.fc1.weight"),
    ):
        expected = model.get_parameter(theirs).grad
        found = ours.get_parameter(name).grad
        assert (found - expected).norm() < 1e-4 * expected.norm(), name


def test_gradient_checkpointing(folders, load):
    """It does not change the gradients, the units that were dropped included."""
    tokens, found = torch.tensor([[0, 5, 8, 20, 2]]), []
    model = load("AutoModelForMaskedLM", folders["exlm"], hidden_dropout_prob=0.3).train()
    for checkpointing in (False, True):
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        model.zero_grad()
        torch.manual_seed(1)
        model(tokens, labels=tokens.masked_fill(tokens != 20, -100)).loss.backward()
        found.append(model.get_parameter("model.layers.0.fc1.weight").grad)
    assert found[0].any()
    torch.testing.assert_close(*found)


def test_lora(folders, load):
    import peft

    base = load("AutoModelForSequenceClassification", folders["exlm"], num_labels=2)
    settings = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["q_proj", "v_proj"])
    model = peft.get_peft_model(base, settings)
    tokens = load("AutoTokenizer", folders["exlm"])(TEXTS[:3], return_tensors="pt", padding=True)
    before = model.eval()(**tokens).logits
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert not any("embed_tokens" in name for name in trainable)
    optimizer = torch.optim.SGD(trainable.values(), lr=1.0)
    for _ in range(3):
        optimizer.zero_grad()
        model(**tokens, labels=torch.tensor([1, 0, 0])).loss.backward()
        optimizer.step()
    grads = [p.grad.abs().sum() for name, p in trainable.items() if "lora_A" in name or "classifier" in name]
    assert len(grads) > 4 and all(grads)
    after = model(**tokens).logits
    assert not torch.allclose(before, after)
    torch.testing.assert_close(model.merge_and_unload()(**tokens).logits, after, rtol=1e-4, atol=1e-5)


def test_metrics_of_trainer_on_a_masked_lm(folders, load, transformers, trainer_of):
    """Graphs of different sizes are no predictions to be joined."""
    tokenizer, model = load("AutoTokenizer", folders["exlm"]), load("AutoModelForMaskedLM", folders["exlm"])
    seen = []
    trainer = trainer_of(
        model,
        eval_dataset=[dict(tokenizer(text)) for text in TEXTS],
        data_collator=transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.3),
        compute_metrics=lambda given: seen.append(given.predictions.shape) or {},
    )
    assert math.isfinite(trainer.evaluate()["eval_loss"])
    assert seen == [(5, 16, 21)]
