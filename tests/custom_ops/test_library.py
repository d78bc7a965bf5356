"""Loading of the compiled op, and what serves where there is none."""

import shutil
import subprocess

import pytest
import torch

from fs_plugins.custom_ops import library
from fs_plugins.custom_ops.dag_loss import dag_loss
from tests import oracles
from tests.custom_ops.test_dag_loss import gradients


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """The loader as in a new process, looking for its libraries in an empty folder."""
    library.load.cache_clear()
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    yield tmp_path
    library.load.cache_clear()


def test_plain_pytorch_serves_where_nothing_was_built(fresh, caplog):
    arguments = *oracles.random_graph(2, 4, 6, missing=0.2), torch.tensor([6, 5]), torch.tensor([4, 3])
    plain = gradients(dag_loss, *arguments)
    assert all(map(torch.equal, plain, gradients(dag_loss, *arguments)))
    assert caplog.text.count("pip install -e .") == 1
    assert all(map(torch.allclose, plain, oracles.dag_loss(*arguments)))


# of another version; of this one, but without a function
@pytest.mark.parametrize(("version", "says"), [(1, "another version"), (library.VERSION, "dag_forward_cpu")])
def test_library_that_does_not_fit_is_refused(fresh, caplog, version, says):
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    code = f'extern "C" int exlm_dag_version() {{ return {version}; }}'
    command = ["g++", "-x", "c++", "-shared", "-fPIC", "-o", library.library_path("cpu"), "-"]
    subprocess.run(command, input=code, text=True, check=True)
    assert library.load("cpu") is None and says in caplog.text
