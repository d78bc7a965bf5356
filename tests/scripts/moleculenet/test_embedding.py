"""Embeddings of molecules."""

import molecules
import numpy as np
import pytest
import torch

from fs_plugins.checkpoint import load_checkpoint
from fs_plugins.data.smiles_tokens import tokenize
from tests.support.molecules import BAD, STREAM


@pytest.mark.parametrize("kind", ["exlm", "mlm"])
def test_embeddings_against_each_molecule_alone(pretrained, stream, tmp_path, kind):
    checkpoint = pretrained[0][kind]
    loaded = load_checkpoint(checkpoint, device="cpu")
    for pooling in ("first", "mean"):
        out = tmp_path / f"{pooling}.npy"
        argv = [
            "embed",
            str(checkpoint),
            str(stream),
            "--output",
            str(out),
            "--pooling",
            pooling,
            "--device",
            "cpu",
        ]
        molecules.main(argv)
        found = np.load(out)
        assert found.shape == (8, 32) and found.dtype == np.float32
        for number, (smiles, vector) in enumerate(zip(STREAM, found, strict=True), start=1):
            if number in BAD:
                assert np.isnan(vector).all()
                continue
            words = [loaded.dictionary.index(token) for token in tokenize(smiles)]
            tokens = torch.tensor([[0, *words, 2]])
            with torch.no_grad():
                states = loaded.model(tokens, features_only=True)[0][0]
            k = (states.shape[0] - len(words)) // 2  # states of <s> and of </s>
            wanted = states[0] if pooling == "first" else states[k:-k].mean(0)
            np.testing.assert_allclose(vector, wanted.numpy(), atol=2e-5)
        remarks = (tmp_path / f"{pooling}.npy.remarks.tsv").read_text().splitlines()[1:]
        assert [int(line.split("\t")[0]) for line in remarks] == [2, 4, 5, 7]
