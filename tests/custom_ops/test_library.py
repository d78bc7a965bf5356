"""Loading of the compiled op, and what serves where there is none."""

import shutil
import subprocess
from types import SimpleNamespace

import pytest
import torch

from fs_plugins.custom_ops import library, sources
from fs_plugins.custom_ops.dag_loss import dag_loss
from tests import oracles
from tests.custom_ops.test_dag_loss import by_enumeration, gradients


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """The loader as in a new process, looking for its libraries in an empty folder."""
    library.load.cache_clear()
    monkeypatch.setattr(sources, "library_path", lambda kind: tmp_path / sources.LIBRARIES[kind])
    monkeypatch.setattr(library, "sys", SimpleNamespace(path=["", str(tmp_path / "nowhere")]))
    yield tmp_path
    library.load.cache_clear()


def test_plain_pytorch_serves_where_nothing_was_built(fresh, caplog):
    arguments = *oracles.random_graph(2, 4, 6, missing=0.2), torch.tensor([6, 5]), torch.tensor([4, 3])
    plain = gradients(dag_loss, *arguments)
    assert all(map(torch.equal, plain, gradients(dag_loss, *arguments)))
    assert caplog.text.count("pip install .") == 1
    assert all(map(torch.allclose, plain, by_enumeration(*arguments)))


# of other sources; of these, but without a function
@pytest.mark.parametrize(
    ("source_hash", "says"), [("0123456789abcdef", "sources"), (None, "exlm_dag_forward_cpu")]
)
def test_library_that_does_not_fit_is_refused(fresh, caplog, source_hash, says):
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    said = source_hash or sources.source_hash("cpu")
    code = f'extern "C" const char* exlm_dag_source_hash() {{ return "{said}"; }}'
    command = ["g++", "-x", "c++", "-shared", "-fPIC", "-o", fresh / sources.LIBRARIES["cpu"], "-"]
    subprocess.run(command, input=code, text=True, check=True)
    assert library.load("cpu") is None and says in caplog.text


def test_library_of_an_installed_copy_is_found(fresh, monkeypatch):
    """A clone whose op was compiled into site-packages by ``pip install .``."""
    built = sources.CSRC.parent / sources.LIBRARIES["cpu"]
    if not built.exists():
        pytest.skip("the op is not beside its sources")
    folder = fresh / "site-packages" / "fs_plugins" / "custom_ops"
    folder.mkdir(parents=True)
    shutil.copy(built, folder)
    monkeypatch.setattr(library, "sys", SimpleNamespace(path=[str(fresh / "site-packages")]))
    library.load.cache_clear()
    assert library.load("cpu") is not None


@pytest.mark.parametrize("code", [-1, -2, -3, -4, -99])
def test_return_codes(code):
    assert library.load("cpu") is not None, "the op was not built: pip install -e . needs a C++ compiler"
    with pytest.raises(ValueError if code in (-2, -4) else RuntimeError):
        library.check(code, "exlm_dag_forward_cpu", library.load("cpu"))


def test_errors_of_cuda_are_in_its_words():
    compiled = library.load("cuda")
    if compiled is None:
        pytest.skip("the CUDA library was not built (needs nvcc)")
    with pytest.raises(RuntimeError, match="CUDA error 2: out of memory$"):  # what fairseq-train looks for
        library.check(2, "exlm_dag_forward_cuda", compiled)
