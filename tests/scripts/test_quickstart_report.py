"""The quickstart's report reads fairseq's logs, shows them, and knows the entropy of the graph's targets."""

import io
import json
import math

import pytest
import quickstart_report as report

BOS, PAD, EOS = 0, 1, 2


def log_line(kind, **figures):
    record = json.dumps({name: str(value) for name, value in figures.items()})
    return f"2026-01-01 00:00:00 | INFO | {kind} | {record}\n"


def train_line(update, loss, **figures):
    defaults = {"ups": 2, "bsz": 16, "targets": 20.5, "wall": 60, "nonfinite": 0}
    return log_line("train_inner", num_updates=update, loss=loss, **(defaults | figures))


def valid_line(update, loss):
    return log_line("valid", valid_loss=loss, valid_num_updates=update)


def test_a_resumed_log_is_one_curve():
    lines = [
        "2026-01-01 00:00:00 | INFO | fairseq_cli.train | {'a': 'configuration'}\n",
        train_line(10, 9.0, wall=20),
        valid_line(10, 8.5),
        train_line(20, 8.0, wall=40),
        "Traceback (most recent call last):\n",
        train_line(20, 7.5, wall=5, ups=float("inf")),
        train_line(30, 7.0, wall=25, nonfinite=1),
    ]
    curve = report.read_curve(lines)
    assert curve.train == {10: 9.0, 20: 7.5, 30: 7.0}
    assert curve.valid == {10: 8.5}
    assert curve.speed == {10: 656.0, 20: 656.0, 30: 656.0}
    assert curve.seconds == 40 + 25
    assert "NON-FINITE SENTENCES" in dict(report.summary_rows(curve, before=9.5, entropy=8.0, words_only=7.5))


def test_summary_says_what_changed():
    curve = report.read_curve([train_line(1500, 6.9, wall=252), valid_line(1500, 7.25)])
    rows = dict(report.summary_rows(curve, before=12.0, entropy=8.0, words_only=7.5))
    assert rows["updates"] == "1,500"
    assert "7.25" in rows["validation bits per target, after"]
    assert "-4.75" in rows["validation bits per target, after"]
    assert "8.00" in rows["unigram entropy of the same targets"]
    assert "7.50   (-0.25" in rows["  with <s> and </s> for free"]
    assert rows["minutes of training"] == "4.2"
    assert "NON-FINITE SENTENCES" not in rows


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("screen", [io.StringIO(), Terminal()])
def test_progress_keeps_the_whole_log_and_shows_the_state(screen):
    text = "starting\n" + train_line(10, 9.0) + valid_line(10, 8.5) + train_line(20, 8.0)
    log = io.StringIO()
    report.show_progress(io.StringIO(text), screen, log, updates=100)
    assert log.getvalue() == text
    assert "10/100 updates  9.00 bits per target (valid 8.50)  656 targets/s  0:45 left" in screen.getvalue()
    assert ("20/100" in screen.getvalue()) == screen.isatty()


@pytest.mark.parametrize("width", [20, 60, 79, 200])
def test_live_line_never_wraps(width):
    curve = report.read_curve([train_line(150_000, 9.0), valid_line(150_000, 8.5)])
    assert len(report.live_line(curve, 2_000_000, 0.5, width)) <= width


def test_graph_targets_are_masked_and_boundary_tokens():
    # <s> 5 </s> 6 7: 5 masked, 6 replaced by 9; the block ends in mid-sentence, so </s> is added.
    assert report.graph_targets([BOS, 99, EOS, 9, 7], [PAD, 5, PAD, 6, PAD], BOS, EOS, PAD) == [0, 5, 2, 6, 2]
    # A sentence that ends in </s>, itself masked: none is added.
    assert report.graph_targets([BOS, 5, 99], [PAD, PAD, EOS], BOS, EOS, PAD) == [0, 2]


def test_entropy_with_the_ends_for_free():
    targets = [0, 5, 6, 2, 0, 7, 8, 2]
    assert report.unigram_entropy(targets) == pytest.approx(2.5)
    assert report.words_only_entropy(targets, report.ENDS) == pytest.approx(2 * 4 / 8)


def test_unigram_entropy():
    assert report.unigram_entropy([4] * 8) == 0
    assert report.unigram_entropy(range(16)) == pytest.approx(4)
    assert report.unigram_entropy([1, 1, 1, 2]) == pytest.approx(0.75 * math.log2(4 / 3) + 0.25 * 2)


def test_table_says_which_log_is_empty(tmp_path):
    (tmp_path / "settings").write_text("k=4\n")
    (tmp_path / "train.log").write_text(valid_line(10, 8.0))
    (tmp_path / "before.log").write_text("nothing yet\n")
    with pytest.raises(SystemExit, match=r"before\.log holds no validation"):
        report.table(tmp_path)
