"""Pre-training from the command line: the authors' command, and the flags that fairseq's users know."""

import math
import shlex
from functools import cache

import pytest
import torch
from fairseq import options

from fs_plugins.criterions import nat_dag_loss_mlm
from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.modules.transition_head import edge_mask
from tests.integration import commands
from tests.integration.commands import pretraining, train
from tests.integration.conftest import VOCABULARY

# The command in the README of the authors' release.
AUTHORS_COMMAND = """
fairseq-train $datapath --user-dir fs_plugins --save-dir "${savepath}"
    --task masked_lm --criterion nat_dag_loss_mlm --arch p_roberta_ext_denselink_base
    --max-positions 2048 --encoder-normalize-before --ext-state-num 4
    --mask-prob 0.15 --leave-unmasked-prob 0 --random-token-prob 0
    --sample-break-mode none --tokens-per-sample 128
    --optimizer adam --adam-betas '(0.9,0.98)' --adam-eps 1e-6 --clip-norm 0.0
    --lr-scheduler polynomial_decay --lr 2e-3 --batch-size 64 --update-freq 32
    --warmup-updates 1380 --total-num-update 23000 --max-update 23000
    --dropout 0.1 --attention-dropout 0.1 --weight-decay 0.01
    --fp16 --fp16-scale-tolerance 0.1 --fp16-scale-window 50
    --keep-interval-updates 100 --save-interval-updates 5000 --validate-interval-updates 5000
    --no-epoch-checkpoints --save-interval 99999999 --validate-interval 99999999
    --num-workers 8 --seed 1 --log-format simple --log-interval 10
    --tensorboard-logdir "${savepath}/tsb"
"""


def authors_flags(**replaced) -> list[str]:
    """The words of the authors' command after its name; ``replaced`` has other values for flags of it."""
    words = shlex.split(AUTHORS_COMMAND)[1:]
    for name, value in replaced.items():
        words[words.index("--" + name.replace("_", "-")) + 1] = str(value)
    return words


def test_the_authors_command_is_understood_word_by_word(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    args = options.parse_args_and_arch(options.get_training_parser(), authors_flags())
    assert args.fp16 and not args.cpu
    assert (args.encoder_layers, args.encoder_embed_dim, args.encoder_attention_heads) == (12, 768, 12)
    assert (args.ext_state_num, args.max_positions, args.update_freq) == (4, 2048, [32])


@cache
def uniform_transitions_cost(targets: int, nodes: int) -> float:
    """Bits per target of a sentence whose vocabulary costs nothing and whose transitions are all alike."""
    edges = edge_mask(torch.tensor([nodes]), nodes)
    links = torch.zeros(1, nodes, nodes, dtype=torch.float64).masked_fill(~edges, -math.inf).log_softmax(-1)
    match = torch.zeros(1, targets, nodes, dtype=torch.float64)
    links = links.masked_fill(~edges, -math.inf)  # the last node has no successor, not all alike
    log_prob = dag_loss(match, links, torch.tensor([nodes]), torch.tensor([targets]))
    return -log_prob.item() / targets / math.log(2)


def test_the_authors_command_learns(corpus, tmp_path, monkeypatch):
    """On a CPU, with a smaller model and batch and 40 updates; TensorBoard gets the log."""
    sizes = []

    def recorded(match, links, node_lengths, target_lengths):
        sizes.append((target_lengths.tolist(), node_lengths.tolist()))
        return dag_loss(match, links, node_lengths, target_lengths)

    monkeypatch.setattr(nat_dag_loss_mlm, "dag_loss", recorded)
    flags = authors_flags(
        user_dir=commands.PLUGIN,
        save_dir=tmp_path,
        tokens_per_sample=32,
        batch_size=8,
        update_freq=1,
        warmup_updates=10,
        max_update=40,
        num_workers=0,
        log_format="json",
        log_interval=1,
        tensorboard_logdir=tmp_path / "tsb",
    )
    flags[flags.index("--fp16")] = "--cpu"
    flags[0] = corpus
    run = train(*flags, *commands.TINY_MODEL)

    losses = run.values("loss")
    assert len(losses) == 40 and all(map(math.isfinite, losses))
    assert set(run.values("nonfinite")) == {0} and set(run.values("nonfinite", "train")) == {0}

    targets, nodes = sizes[0]
    assert nodes == [4 * M for M in targets]
    cost = sum(map(uniform_transitions_cost, targets, nodes)) / len(targets)
    difference = losses[0] - math.log2(VOCABULARY)
    assert abs(difference - cost) < 1, f"first loss - log2 V = {difference:.3f}, transitions {cost:.3f}"
    # Batches differ in length, so compare means.
    assert sum(losses[-10:]) / 10 < sum(losses[:10]) / 10 - 1
    [events] = (tmp_path / "tsb" / "train_inner").glob("events.out.tfevents.*")
    assert b"nonfinite" in events.read_bytes()


@pytest.mark.parametrize(
    "flags",
    [
        ["--mask-prob", 1e-9, "--sample-break-mode", "eos"],  # the targets are <s> and </s> alone
        ["--leave-unmasked-prob", 0.1, "--random-token-prob", 0.1],  # fairseq's defaults
        ["--mask-multiple-length", 3, "--mask-stdev", 1],  # another path through fairseq's masking
    ],
    ids=["no masks", "kept and random", "spans"],
)
def test_other_masks(flags, corpus, tmp_path):
    run = train(*pretraining(corpus, tmp_path, *flags, "--max-update", 20))
    assert len(run.updates) == 20 and set(run.values("nonfinite")) == {0}
    assert run.values("loss")[-1] < run.values("loss")[0] - 1


@pytest.mark.parametrize(
    ("arch", "criterion"), [("exlm_tiny", "nat_dag_loss_mlm"), ("mlm_tiny", "masked_lm")]
)
def test_untied_output_matrix_is_trained_and_saved_apart(arch, criterion, corpus, tmp_path):
    flags = pretraining(corpus, tmp_path, "--untie-weights-roberta", arch=arch, criterion=criterion)
    train(*flags)
    model = commands.load_checkpoint(tmp_path / "checkpoint_last.pt")["model"]
    output, embedding = (
        model[f"encoder.{name}.weight"] for name in ("lm_head", "sentence_encoder.embed_tokens")
    )
    assert output.shape == embedding.shape and not torch.equal(output, embedding)
    resumed = train(*flags, "--max-update", 10)
    assert list(resumed.losses()) == [9, 10]


def test_bf16_trains_on_a_cpu_as_float32_does(corpus, tmp_path):
    flags = ["--dropout", 0, "--attention-dropout", 0]
    plain = train(*pretraining(corpus, tmp_path / "float32", *flags))
    flags = pretraining(corpus, tmp_path / "bf16", *flags, "--bf16")
    run = train(*flags)
    assert run.values("loss") == pytest.approx(plain.values("loss"), abs=0.02)
    assert run.losses() != plain.losses()
    assert list(train(*flags, "--max-update", 10).losses()) == [9, 10]


def test_the_log_is_free_of_warnings(corpus, tmp_path):
    """Those that come from fairseq's own code are silenced, and there are none of ours."""
    process = commands.start("train", *pretraining(corpus, tmp_path, "--num-workers", 1, "--amp"))
    (run,) = commands.finish(process)
    assert len(run.updates) == 8
    # torch's own word on --amp without a GPU, which is a choice of this test
    lines = [line for line in run.lines if "Warning" in line and "CUDA is not available" not in line]
    assert lines == []
