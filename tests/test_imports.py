"""What needs no fairseq does not import it, and where it is needed it has the plugin registered."""

import subprocess
import sys

import pytest

LOADED = "{'torch', 'fairseq'} & sys.modules.keys()"
REGISTERED = "from fairseq.criterions import CRITERION_REGISTRY as known; assert 'nat_dag_loss_mlm' in known"
REGISTERED += "; fs_plugins.register()"
DATA = "fs_plugins.data.smiles_tokens, fs_plugins.data.molecules, fs_plugins.files"
CASES = [(DATA, f"assert not {LOADED}"), ("fairseq, fs_plugins", REGISTERED)]
CASES += [("fs_plugins.exlm.model, fs_plugins.custom_ops.dag_loss", f"assert {LOADED} == {{'torch'}}")]
CASES += [("fs_plugins.data.smiles_tokens, fs_plugins.checkpoint", REGISTERED)]


@pytest.mark.parametrize(("modules", "then"), CASES)
def test_what_modules_import(modules, then):
    subprocess.run([sys.executable, "-c", f"import sys, {modules}; {then}"], check=True)
