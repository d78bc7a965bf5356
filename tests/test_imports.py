"""What needs no fairseq does not import it."""

import subprocess
import sys

import pytest

# modules -> what of torch and fairseq they import
NEEDS = {
    ("fs_plugins.data.smiles_tokens", "fs_plugins.data.molecules", "fs_plugins.files"): set(),
    ("fs_plugins.exlm.model", "fs_plugins.custom_ops.dag_loss"): {"torch"},
}


@pytest.mark.parametrize("modules", NEEDS)
def test_what_modules_import(modules):
    code = f"import sys, {', '.join(modules)}; print(*{{'torch', 'fairseq'}} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) == NEEDS[modules]


@pytest.mark.parametrize(
    "imports", ["fairseq, fs_plugins", "fs_plugins.data.smiles_tokens, fs_plugins.checkpoint"]
)
def test_fairseq_has_the_plugin_registered_where_it_is_needed(imports):
    code = f"import {imports}; from fairseq.criterions import CRITERION_REGISTRY as registered"
    code += "; assert 'nat_dag_loss_mlm' in registered; fs_plugins.register()"
    subprocess.run([sys.executable, "-c", code], check=True)
