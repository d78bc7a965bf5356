"""What --print says of the cost of the paper's pre-trainings: their parameters, and 6 N D by hand."""

import pytest

from tests.support import builders, pages


def of_layers(layers: int, d: int, ffn: int) -> int:
    """Four projections, two of the feed-forward network, two norms; each with its bias."""
    return layers * (4 * (d * d + d) + 2 * d * ffn + ffn + d + 4 * d)


@pytest.mark.parametrize(
    ("run", "parameters", "tokens", "D", "updates"),
    [
        # the parameters that the paper has (docs/choices.md); p = 15%, k = 4
        ("text exlm", "128,255,589", "524,288", 760_217, 50_000),
        ("text mlm --gpus 2", "124,301,913", "524,288", 524_288, 50_000),
        ("text repeated-mlm --k 2 --updates 9", "124,301,913", "524,288", 2 * 524_288, 9),
        ("smiles mlm", "50,503,281", "64,000", 64_000, 120_000),
    ],
)
def test_cost_of_the_papers_runs(run, parameters, tokens, D, updates):
    corpus, model, *more = run.split()
    said = pages.resolve(f"pretrain_{corpus}", model, "paper", "d", "s", "--print", *more).note
    N = of_layers(12, 768, 3072) if corpus == "text" else of_layers(9, 768, 2048)
    assert f" {parameters}, with a dictionary" in said and f" {tokens}; in the encoder {D:,}\n" in said
    assert f" {6 * N * D * updates:.3g} (6 N D)" in said


def test_parameters_follow_the_dictionary_of_the_data(tmp_path):
    builders.write_dictionary(tmp_path, [f"w{i}" for i in range(95)])  # 100 entries
    said = pages.resolve("pretrain_text", "mlm", "paper", tmp_path, "s", "--print").note
    assert f" {124_301_913 - (50_265 - 100) * 769:,}\n" in said  # a row of the matrix, and its bias
