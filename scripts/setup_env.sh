#!/usr/bin/env bash
# Makes the Python environment of this clone in .venv and compiles the op; does nothing when both are up to date:
#
#   bash scripts/setup_env.sh         the package
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

extra=${1-}
[[ $# -le 1 && $extra =~ ^(test)?$ ]] || fail "usage: bash scripts/setup_env.sh [test]"
venv=${EXLM_VENV:-.venv}
log=$venv/setup.log
stamp=$venv/exlm-stamp # shows that the environment is ours; what is in it, with what that depends on
unfinished=$venv/exlm-unfinished

installed() { # prints the line of $stamp for the package or the extra
    {
        cat scripts/setup_env.sh setup.py pyproject.toml constraints.txt fs_plugins/custom_ops/{sources.py,csrc/*}
        pwd
        command -v nvcc || true
    } | "$venv/bin/python" -c 'import hashlib, sys; print(sys.argv[1], hashlib.sha256(sys.stdin.buffer.read()).hexdigest())' "$1"
}

if [[ -x $venv/bin/python && -f $stamp ]] && grep -qxF "$(installed "${extra:-package}")" "$stamp"; then
    exit 0
fi

command -v ${CXX:+"${CXX%% *}"} c++ g++ clang++ >/dev/null ||
    fail "no C++ compiler found (c++, g++, clang++ or \$CXX); on Debian: apt install g++"
python=${EXLM_VENV:+$venv/bin/python}
python=${python:-${PYTHON:-python3}}
command -v "$python" >/dev/null ||
    fail "there is no $python: set PYTHON (on Debian: apt install python3 python3-venv python3-dev), or unset EXLM_VENV"
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
    fail "'$python' is $("$python" --version 2>&1), ExLM needs Python 3.11 to 3.13: set PYTHON to one, such as PYTHON=python3.12"
if [[ -z ${EXLM_VENV:-} ]]; then
    if [[ -e $venv || -L $venv ]]; then
        [[ -e $stamp || -e $unfinished ]] ||
            fail "$PWD/$venv was not made by this script: remove it, or install into it with EXLM_VENV=$venv"
        # Interrupted in the middle of an installation, moved or copied here from elsewhere: begin anew.
        if [[ -e $unfinished || $("$venv/bin/pip" --version 2>&1) != *"from $PWD/.venv/"* ]]; then
            rm -rf "$venv"
        fi
    fi
    if [[ ! -e $stamp ]]; then
        mkdir "$venv" && touch "$unfinished"
        "$python" -m venv "$venv" || fail "'$python -m venv $venv' failed; on Debian: apt install python3-venv"
        touch "$stamp"
    fi
fi
"$venv/bin/python" -m pip --version >/dev/null 2>&1 || fail "$venv has no pip: run '$venv/bin/python -m ensurepip', or unset EXLM_VENV"
# fairseq-fixed is a wheel for Python 3.12 only; elsewhere pip compiles it.
"$venv/bin/python" -c '
import importlib.util as modules, pathlib, sys, sysconfig
header = pathlib.Path(sysconfig.get_path("include"), "Python.h")
sys.exit(not (sys.version_info[:2] == (3, 12) or header.exists() or modules.find_spec("fairseq")))' ||
    fail "Python.h was not found: fairseq is compiled on this Python; on Debian: apt install python3-dev"

step() { # step WHAT [PIP'S ARGUMENTS]
    local start=$SECONDS status=0
    printf '  %-58s' "$1"
    touch "$unfinished"
    "$venv/bin/python" -m pip --disable-pip-version-check --no-input "${@:2}" >>"$log" 2>&1 || status=$?
    rm -f "$unfinished" # pip has undone what it began
    if [[ $status -ne 0 ]]; then
        printf 'failed\n\n'
        tail -n 30 "$log"
        fail "'$1' failed: the end of $log is above; run the same command again once the cause is mended"
    fi
    printf '%4d s\n' $((SECONDS - start))
}

echo "Setting up $venv (log: $log)"
: >"$log"
fairseq=$(grep '^fairseq-fixed==' constraints.txt)
# In this order: a build of fairseq in isolation would fetch a torch of its own choice, with GBs of CUDA packages.
step "build tools, NumPy" install -c constraints.txt setuptools wheel cython numpy
step "PyTorch ($(grep '^torch==' constraints.txt))" install -c constraints.txt torch
# fairseq-fixed requires torchaudio, which nothing here uses, and which transformers fails to import if it is of another
# torch. This has its name and no module, so that pip does not fetch it with any extra later.
step "no torchaudio" uninstall -y torchaudio
name=torchaudio-$(sed -n 's/^torchaudio==//p' constraints.txt)+none
about=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/$name.dist-info
mkdir -p "$about"
printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "${name%%-*}" "${name#*-}" >"$about/METADATA"
printf "$name.dist-info/%s,,\n" METADATA RECORD >"$about/RECORD"
step "fairseq ($fairseq)" install -c constraints.txt --no-build-isolation "$fairseq"
# On a PyTorch for CPUs nothing but tests uses the CUDA library, which takes minutes to compile.
if [[ -z $extra ]] && "$venv/bin/python" -c 'import sys, torch; sys.exit(torch.version.cuda is not None)'; then
    export EXLM_NO_CUDA=${EXLM_NO_CUDA-1}
fi
step "ExLM, the rest" install -c constraints.txt --no-build-isolation -v -e ".${extra:+[$extra]}"

op='import sources, sys; sys.exit(not sources.library_path("cpu").exists())'
if PYTHONPATH=fs_plugins/custom_ops "$venv/bin/python" -c "$op"; then
    { installed package && [[ -z $extra ]] || installed test; } >"$stamp.new"
    mv "$stamp.new" "$stamp"
else # no stamp: the next run tries again
    echo "warning: the DAG loss could not be compiled; ExLM will use the slower plain PyTorch path. See $log" >&2
fi
