"""A masking probability of each sample."""

import numpy as np
import pytest
import torch
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from fs_plugins.tasks.varied_masked_lm import VariedMaskedLMConfig, VariedMaskedLMTask
from tests.support import builders

WORDS = builders.dictionary(50)
LENGTH = 40  # with <s> and </s>


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("corpus"), np.random.default_rng(1)
    builders.write_split(folder, "train", builders.rows(WORDS, [LENGTH - 2] * 2000, rng), WORDS)
    return folder


def split(corpus, task, config, **settings):
    settings |= {"leave_unmasked_prob": 0.0, "random_token_prob": 0.0, "sample_break_mode": "eos"}
    loaded = task.setup_task(config(data=str(corpus), seed=3, **settings))
    loaded.load_dataset("train")
    return loaded.dataset("train")


def batch(dataset):
    return dataset.collater([dataset[i] for i in range(len(dataset))])


def test_shares_are_uniform_and_inputs_and_targets_agree(corpus):
    dataset = split(corpus, VariedMaskedLMTask, VariedMaskedLMConfig, mask_prob=0.51, mask_prob_spread=0.49)
    first = batch(dataset)
    masked = first["target"].ne(WORDS.pad())
    assert torch.equal(masked, first["net_input"]["src_tokens"].eq(WORDS.index("<mask>")))
    shares = masked.float().mean(1)
    # the quantiles of 2000 uniform numbers, within 4 standard errors and half a token
    wanted = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9])
    error = 4 * 0.98 * (wanted * (1 - wanted) / 2000).sqrt() + 0.5 / LENGTH
    assert ((shares.quantile(wanted) - (0.02 + 0.98 * wanted)).abs() < error).all()
    dataset.set_epoch(2)
    again = batch(dataset)["target"].ne(WORDS.pad()).float().mean(1)
    assert abs(torch.corrcoef(torch.stack([shares, again]))[0, 1]) < 0.1  # drawn anew


def test_without_spread_it_is_fairseqs(corpus):
    ours = split(corpus, VariedMaskedLMTask, VariedMaskedLMConfig, mask_prob=0.3)
    theirs = split(corpus, MaskedLMTask, MaskedLMConfig, mask_prob=0.3)
    torch.testing.assert_close(batch(ours), batch(theirs), rtol=0, atol=0)


def test_a_range_beyond_0_or_1_is_an_error(corpus):
    with pytest.raises(ValueError, match="give 0 to 0.4, the distance of --mask-prob 0.6"):
        split(corpus, VariedMaskedLMTask, VariedMaskedLMConfig, mask_prob=0.6, mask_prob_spread=0.45)
