"""What needs no fairseq does not import it, and where it is needed it has the plugin registered."""

import subprocess
import sys

import pytest

LOADED = "{'torch', 'fairseq'} & sys.modules.keys()"
REGISTERED = "from fairseq.criterions import CRITERION_REGISTRY as known; assert 'nat_dag_loss_mlm' in known"


@pytest.mark.parametrize(
    ("modules", "then"),
    [
        (
            "fs_plugins.data.smiles_tokens, fs_plugins.data.molecules, fs_plugins.files",
            f"assert not {LOADED}",
        ),
        ("fs_plugins.exlm.model, fs_plugins.custom_ops.dag_loss", f"assert {LOADED} == {{'torch'}}"),
        ("fairseq, fs_plugins", f"{REGISTERED}; fs_plugins.register()"),
        ("fs_plugins.data.smiles_tokens, fs_plugins.checkpoint", f"{REGISTERED}; fs_plugins.register()"),
    ],
)
def test_what_modules_import(modules, then):
    subprocess.run([sys.executable, "-c", f"import sys, {modules}; {then}"], check=True)
