#!/usr/bin/env bash
# Makes the Python environment of this clone in .venv and compiles the op; does nothing when both are up to date:
#
#   bash scripts/setup_env.sh             the package, in the versions of constraints.txt
#   bash scripts/setup_env.sh workflow    also an extra of pyproject.toml: workflow, or test for all that the tests need
#
# Environment variables:
#   PYTHON     the Python to make .venv with, 3.11 to 3.13 (default: python3)
#   EXLM_VENV  an existing virtual environment to install into instead
#   CXX, CUDA_HOME, TORCH_CUDA_ARCH_LIST, EXLM_NO_CUDA, EXLM_REQUIRE_OP: see setup.py
# pip's own settings hold too. Where pip finds PyTorch's CPU wheels (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS) it takes those;
# otherwise, on Linux, torch comes with its CUDA libraries, several GB.
set -euo pipefail
[[ ${EXLM_VENV:-/} == /* ]] || EXLM_VENV=$PWD/$EXLM_VENV
CDPATH="" cd "$(dirname "${BASH_SOURCE[0]}")/.."

extra=${1:-} venv=${EXLM_VENV:-.venv}
stamp=$venv/exlm-${extra:-package} log=$venv/setup.log
# what an environment depends on
state=$(cat scripts/setup_env.sh setup.py pyproject.toml constraints.txt fs_plugins/custom_ops/csrc/* | cksum; pwd)
[[ -f $stamp && $(<"$stamp") == "$state" ]] && exit
command -v flock >/dev/null && exec 9<. && flock 9 # two runs at once would install into each other's environment

python=$venv/bin/python
[[ -x $python ]] || python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
    { echo "error: $python is not Python 3.11 to 3.13: remove $venv if it is there; set PYTHON, such as PYTHON=python3.12" >&2 && exit 1; }
[[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
echo "Setting up $venv (log: $log)"
: >"$log"

pip() { # pip WHAT ARGUMENTS
    printf '  %s\n' "$1"
    "$venv/bin/python" -m pip --disable-pip-version-check --no-input "${@:2}" >>"$log" 2>&1 && return
    tail -n 30 "$log"
    echo "error: '$1' failed: the end of $log is above; run the same command again once the cause is mended" >&2
    exit 1
}

# In this order: a build of fairseq in isolation would fetch a torch of its own choice, with GBs of CUDA packages.
pip "build tools, NumPy" install -c constraints.txt setuptools wheel cython numpy
pip "PyTorch" install -c constraints.txt torch
pip "fairseq" install -c constraints.txt --no-build-isolation --no-deps fairseq-fixed
# On a PyTorch for CPUs nothing but tests uses the CUDA library, which takes minutes to compile.
if [[ $extra != test ]] && "$venv/bin/python" -c 'import sys, torch; sys.exit(torch.version.cuda is not None)'; then
    export EXLM_NO_CUDA=${EXLM_NO_CUDA-1}
fi
EXLM_REQUIRE_OP=${EXLM_REQUIRE_OP-1} pip "ExLM and the rest" install -c constraints.txt --no-build-isolation -v -e ".${extra:+[$extra]}"
# fairseq-fixed asks for it, nothing uses it, and transformers fails to import one of another torch.
pip "no torchaudio" uninstall -y torchaudio
echo "$state" | tee "$stamp" >"$venv/exlm-package"
