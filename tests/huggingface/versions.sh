#!/usr/bin/env bash
# Runs the tests of the exports with the oldest and the newest supported transformers, and with accelerate, peft and
# sentence-transformers, each in an environment of its own, .venv/transformers-VERSION, on top of .venv:
#
#   bash tests/huggingface/versions.sh                    both
#   bash tests/huggingface/versions.sh 5.0.0 -k outputs   one version; what follows goes to pytest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

versions=(4.57.6 5.23.0)
if [[ ${1:-} == [0-9]* ]]; then
    versions=("$1")
    shift
fi
bash scripts/setup_env.sh test
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
base=$(cd "${EXLM_VENV:-.venv}" && pwd)
for version in "${versions[@]}"; do
    venv=$base/transformers-$version
    if [[ ! -f $venv/whole ]]; then
        rm -rf "$venv"
        "$base/bin/python" -m venv --without-pip "$venv"
        "$base/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
            >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/exlm.pth"
        "$base/bin/python" -m pip --python "$venv/bin/python" install --disable-pip-version-check --quiet \
            "transformers==$version" "$(grep '^torch==' constraints.txt)" accelerate peft sentence-transformers
        touch "$venv/whole"
    fi
    printf '\ntransformers %s\n' "$version"
    "$venv/bin/python" -m pytest -q tests/huggingface "$@"
done
