#!/usr/bin/env bash
# Sets up an environment with all that the tests need, checks the style and runs the tests; what is given on the
# command line goes to pytest:
#
#   bash scripts/test.sh                        everything that a CPU can run
#   bash scripts/test.sh --quick                without the slow tests, for the minutes between two edits
#   bash scripts/test.sh tests/custom_ops -x    one folder, up to the first failure
#   EXLM_TEST_ALL=1 bash scripts/test.sh        everything, and MUV's 93,087 molecules (a minute more)
#
# It ends with what was skipped, by reason. Tests of pages need Debian's chromium and chromium-driver.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash scripts/setup_env.sh test
venv=$(cd "${EXLM_VENV:-.venv}" && pwd)

# chemprop pins another RDKit: both in an environment on top of the first.
chemprop=$venv/exlm-chemprop
if ! grep -qs "$(grep '^chemprop==' constraints.txt)" "$chemprop/whole"; then
    echo "Setting up $chemprop"
    rm -rf "$chemprop"
    "$venv/bin/python" -m venv --without-pip "$chemprop"
    purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
    "$venv/bin/python" -c "$purelib" >"$("$chemprop/bin/python" -c "$purelib")/exlm.pth"
    grep -v '^rdkit==' constraints.txt >"$chemprop/constraints.txt"
    "$venv/bin/python" -m pip --python "$chemprop/bin/python" install --disable-pip-version-check -qq \
        -c "$chemprop/constraints.txt" "$(grep '^chemprop==' constraints.txt)"
    grep '^chemprop==' constraints.txt >"$chemprop/whole"
fi

"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check .

if [[ ${1:-} == --quick ]]; then
    shift
    set -- -m "not slow" "$@"
fi
# Two workers of one thread each are faster than two that compete for the same cores.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
exec "$venv/bin/python" -m pytest -n 2 --dist loadfile --no-loadscope-reorder "$@"
