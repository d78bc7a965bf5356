#!/usr/bin/env bash
# Makes the Python environment of this clone in .venv and compiles the op; does nothing when both are up to date:
#
#   bash scripts/setup_env.sh         the package and the extra `export`
#   bash scripts/setup_env.sh test    also all that the tests need: the extra `test`
#
# Environment variables:
#   PYTHON     the Python to make .venv with, 3.11 to 3.13 (default: python3)
#   EXLM_VENV  an existing virtual environment to install into instead (the versions of constraints.txt)
#   CXX, CUDA_HOME, TORCH_CUDA_ARCH_LIST, EXLM_NO_CUDA, EXLM_REQUIRE_OP: see setup.py
# pip's own settings hold too. Where pip finds PyTorch's CPU wheels (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS) it takes those;
# otherwise, on Linux, torch comes with its CUDA libraries, several GB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

# Two runs at once would install into each other's environment. The lock goes when this script ends, however it ends.
if command -v flock >/dev/null; then
    exec 9<.
    flock -n 9 || { echo "waiting for another run of scripts/setup_env.sh" && flock 9; }
fi

check_python() {
    command -v "$1" >/dev/null ||
        fail "there is no command '$1'; on Debian: apt install python3 python3-venv python3-dev, or set PYTHON to one"
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
        fail "'$1' is $("$1" --version 2>&1), ExLM needs Python 3.11 to 3.13: set PYTHON to one, such as PYTHON=python3.12"
}

if [[ -n ${EXLM_VENV:-} ]]; then
    venv=$EXLM_VENV
    [[ -x $venv/bin/python ]] ||
        fail "EXLM_VENV=$venv: there is no $venv/bin/python; make it with 'python3 -m venv $venv', or unset EXLM_VENV"
    check_python "$venv/bin/python"
else
    venv=.venv
fi
extra=${1:-export}
[[ $# -le 1 && $extra =~ ^(export|test)$ ]] || fail "usage: bash scripts/setup_env.sh [test]"
log=$venv/setup.log
stamp=$venv/exlm-stamp
test_stamp=$venv/exlm-stamp-test # the extra `test` is there too
unfinished=$venv/exlm-unfinished

# What the installed state depends on: this script, the package's build, its sources, the place of the clone, nvcc.
fingerprint() {
    {
        cat scripts/setup_env.sh setup.py pyproject.toml constraints.txt fs_plugins/custom_ops/sources.py
        cat fs_plugins/custom_ops/csrc/*
        pwd
        command -v nvcc || true
    } | "$venv/bin/python" -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
}

wanted=$stamp
[[ $extra == test ]] && wanted=$test_stamp
if [[ -x $venv/bin/python && -f $wanted && $(cat "$wanted") == "$(fingerprint)" ]]; then
    exit 0
fi

step() { # step WHAT COMMAND...
    local what=$1 start=$SECONDS
    shift
    printf '  %-58s' "$what"
    touch "$unfinished"
    if "$@" >>"$log" 2>&1; then
        rm -f "$unfinished"
        printf '%4d s\n' $((SECONDS - start))
        return
    fi
    rm -f "$unfinished" # pip has undone what it began
    printf 'failed\n\n'
    tail -n 30 "$log"
    fail "'$what' failed: the end of $log is above; run the same command again once the cause is mended"
}

make_venv() {
    local python=${PYTHON:-python3}
    check_python "$python"
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "$python has no venv module; on Debian: apt install python3-venv"
    # Interrupted in the middle of an installation, moved or copied here from elsewhere: begin anew.
    if [[ -e $venv && (-e $unfinished || $("$venv/bin/pip" --version 2>&1) != *"from $PWD/.venv/"*) ]]; then
        rm -rf "$venv"
    fi
    [[ -x $venv/bin/python ]] || "$python" -m venv "$venv" || fail "'$python -m venv $venv' failed"
}

check_compiler() {
    local compiler
    for compiler in ${CXX:+"${CXX%% *}"} c++ g++ clang++; do
        command -v "$compiler" >/dev/null && return
    done
    fail "no C++ compiler found (c++, g++, clang++ or \$CXX); on Debian: apt install g++"
}

# fairseq-fixed is a wheel for Python 3.12 only; elsewhere pip compiles it, which needs Python.h.
check_headers() {
    "$venv/bin/python" - <<'PYTHON' || fail "Python.h was not found: fairseq is compiled on this Python; on Debian: apt install python3-dev"
import importlib.util, os, sys, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not (sys.version_info[:2] == (3, 12) or os.path.exists(header) or importlib.util.find_spec("fairseq")))
PYTHON
}

check_compiler
[[ -n ${EXLM_VENV:-} ]] || make_venv
check_headers

pinned() { # pinned NAME: its line of constraints.txt, such as torch==2.13.0
    grep "^$1==" constraints.txt
}

pip=("$venv/bin/python" -m pip install --disable-pip-version-check --no-input -c constraints.txt)
echo "Setting up $venv (log: $log)"
: >"$log"
# In this order: a build of fairseq in isolation would fetch a torch of its own choice, with GBs of CUDA packages.
step "build tools, NumPy" "${pip[@]}" setuptools wheel cython numpy
step "PyTorch ($(pinned torch))" "${pip[@]}" torch
step "fairseq ($(pinned fairseq-fixed))" "${pip[@]}" --no-build-isolation "$(pinned fairseq-fixed)"
step "ExLM, the rest" "${pip[@]}" --no-build-isolation -v -e ".[$extra]"
# fairseq-fixed requires it, but nothing here uses it, and transformers fails to import one of another torch's.
step "torchaudio removed" "$venv/bin/python" -m pip uninstall --disable-pip-version-check -y torchaudio

op_is_built() {
    "$venv/bin/python" - <<'PYTHON'
import sys
sys.path.insert(0, "fs_plugins/custom_ops")
import sources
sys.exit(not sources.library_path("cpu").exists())
PYTHON
}

if op_is_built; then
    fingerprint >"$stamp.new" && mv "$stamp.new" "$stamp"
    [[ $extra != test ]] || cp "$stamp" "$test_stamp"
else
    # No stamp: the next run tries again.
    echo "warning: the DAG loss could not be compiled; ExLM will use the slower plain PyTorch path. See $log" >&2
fi
