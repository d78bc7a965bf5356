"""Repeated MLM: batches, and the corrupted proportion."""

import math

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from fs_plugins.tasks.repeated_masked_lm import RepeatedMaskedLMConfig, RepeatedMaskedLMTask
from tests.support import builders

WORDS = builders.dictionary(50)
FAIRSEQ, REPEATED = (MaskedLMTask, MaskedLMConfig), (RepeatedMaskedLMTask, RepeatedMaskedLMConfig)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("corpus"), np.random.default_rng(1)
    builders.write_split(folder, "train", builders.rows(WORDS, rng.integers(3, 30, 400), rng), WORDS)
    return folder


def load(corpus, what, **settings):
    """The task, which has loaded the split."""
    task_class, config_class = what
    task = task_class.setup_task(config_class(data=str(corpus), tokens_per_sample=64, seed=3, **settings))
    task.load_dataset("train")
    return task


def batches(task, sentences=8):
    limits = {"max_sentences": sentences, "max_positions": task.max_positions(), "seed": 1}
    iterator = task.get_batch_iterator(task.dataset("train"), ignore_invalid_inputs=True, **limits)
    return list(iterator.next_epoch_itr(shuffle=False))


@pytest.mark.parametrize("mode", ["none", "eos"])
def test_by_default_it_is_fairseqs_masked_lm(corpus, mode):
    settings = {"sample_break_mode": mode, "random_token_prob": 0.2, "leave_unmasked_prob": 0.1}
    ours, theirs = (batches(load(corpus, task, **settings)) for task in (REPEATED, FAIRSEQ))
    assert len(ours) > 1
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_every_token_stands_k_times(corpus):
    once, four = (load(corpus, REPEATED, repeat_times=k) for k in (1, 4))
    assert (once.max_positions(), four.max_positions()) == (64, 256)
    for a, b in zip(batches(once), batches(four), strict=True):
        pairs = ((x["target"], x["net_input"]["src_tokens"]) for x in (a, b))
        originals = [torch.where(target.ne(WORDS.pad()), target, tokens) for target, tokens in pairs]
        assert torch.equal(originals[1], originals[0].repeat_interleave(4, dim=1))
        assert torch.equal(b["net_input"]["src_lengths"], 4 * a["net_input"]["src_lengths"])
        assert b["ntokens"] == 4 * a["ntokens"]
        assert originals[1][:, :4].eq(WORDS.bos()).all()


class NoModel(torch.nn.Module):
    """A criterion's and model's place, where only batches are looked at."""

    def forward(self, *_):
        return torch.zeros(()), 1, {"loss": 0.0, "sample_size": 1, "ntokens": 1, "nsentences": 1}

    @staticmethod
    def reduce_metrics(logs):
        metrics.log_scalar("loss", len(logs))


@pytest.mark.parametrize(("k", "p"), [(1, 0.0225), (2, 0.387), (4, 0.622), (8, 0.789)])
def test_corrupted_proportion_is_that_of_the_paper(corpus, k, p):
    """Figure 4, from real batches: p^k within 3 standard errors (appendix C's variance)."""
    task = load(corpus, REPEATED, repeat_times=k, mask_prob=p, leave_unmasked_prob=0.0, random_token_prob=0.0)
    logs = [task.valid_step(batch, NoModel().eval(), NoModel())[2] for batch in batches(task, 32)]
    tokens, corrupted = (sum(int(log[name]) for log in logs) for name in ("original_tokens", "corrupted"))
    assert tokens > 6000
    assert abs(corrupted / tokens - p**k) < 3 * math.sqrt(p**k * (1 - p**k) / tokens)
    masked = sum(int(b["target"].ne(WORDS.pad()).sum()) for b in batches(task, 32))
    assert masked / (tokens * k) == pytest.approx(p, abs=0.01)
    with metrics.aggregate() as logged:
        task.reduce_metrics(logs, NoModel())
    values = logged.get_smoothed_values()
    assert values["corrupted"] == pytest.approx(corrupted / tokens, abs=1e-5) and values["loss"] == len(logs)
