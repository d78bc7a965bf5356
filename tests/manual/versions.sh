#!/usr/bin/env bash
# Before a release: runs the tests with the oldest and newest supported versions of what exchanges tensors with this
# package, each in an environment of its own, .venv/exlm-PACKAGE-VERSION:
#
#   bash tests/manual/versions.sh                                   all of the list below
#   bash tests/manual/versions.sh transformers==5.5.0 -k outputs    one version; what follows goes to pytest
#
# transformers is installed on top of .venv, and runs tests/huggingface. torch has everything installed beside it anew,
# and runs what `scripts/test.sh --quick` runs; on Linux, PyPI's old wheels come with several GB of CUDA libraries.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

all=(transformers==5.23.0 transformers==5.24.0 torch==2.10.0)
if [[ ${1:-} == *==* ]]; then
    all=("$1")
    shift
fi
bash scripts/setup_env.sh test
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
base=$(cd "${EXLM_VENV:-.venv}" && pwd)
purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
for requirement in "${all[@]}"; do
    venv=$base/exlm-${requirement/==/-}
    pip=("$base/bin/python" -m pip --python "$venv/bin/python" install --disable-pip-version-check --quiet)
    if [[ ! -f $venv/whole ]]; then
        rm -rf "$venv"
        "$base/bin/python" -m venv --without-pip "$venv"
        if [[ $requirement == torch==* ]]; then
            grep -v '^torch==' constraints.txt >"$venv/constraints.txt"
            "${pip[@]}" -c "$venv/constraints.txt" "$requirement" numpy setuptools wheel cython
            "${pip[@]}" -c "$venv/constraints.txt" --no-build-isolation "$requirement" fairseq-fixed -e '.[test]'
            "$base/bin/python" -m pip --python "$venv/bin/python" uninstall -qy torchaudio # see scripts/setup_env.sh
        else
            "$base/bin/python" -c "$purelib" >"$("$venv/bin/python" -c "$purelib")/exlm.pth"
            "${pip[@]}" "$requirement" "$(grep '^torch==' constraints.txt)" accelerate peft sentence-transformers
        fi
        touch "$venv/whole"
    fi
    printf '\n%s\n' "$requirement"
    if [[ $requirement == torch==* ]]; then
        "$venv/bin/python" -m pytest -q -n 2 --dist loadfile -m "not slow" "$@"
    else
        "$venv/bin/python" -m pytest -q tests/huggingface "$@"
    fi
done
