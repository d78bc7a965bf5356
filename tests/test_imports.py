"""What needs no fairseq does not import it."""

import subprocess
import sys

import pytest

NEEDS = {
    "fs_plugins.data.smiles_tokens": set(),
    "fs_plugins.data.molecules": set(),
    "fs_plugins.exlm.model": {"torch"},
    "fs_plugins.custom_ops.dag_loss": {"torch"},
    "fs_plugins.checkpoint": {"torch", "fairseq"},
}


@pytest.mark.parametrize("module", NEEDS)
def test_what_a_module_imports(module):
    code = f"import sys, {module}; print(*{{'torch', 'fairseq', 'transformers'}} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) == NEEDS[module]


def test_fairseq_registers_the_plugin_and_so_does_whoever_needs_it():
    for code in (
        "import fairseq, fs_plugins",
        "import fs_plugins.data.smiles_tokens, fs_plugins.checkpoint",
        "import fs_plugins; fs_plugins.register(); fs_plugins.register()",
    ):
        code += "; from fairseq.criterions import CRITERION_REGISTRY as r; assert 'nat_dag_loss_mlm' in r"
        subprocess.run([sys.executable, "-c", code], check=True)
