#!/usr/bin/env bash
# Sets up an environment with all that the tests need, checks the style and runs the tests; what is given on the
# command line goes to pytest:
#
#   bash scripts/test.sh                        everything that a CPU can run
#   bash scripts/test.sh --quick                without the slow tests, for the minutes between two edits
#   bash scripts/test.sh tests/custom_ops -x    one folder, up to the first failure
#   EXLM_TEST_ALL=1 bash scripts/test.sh        also MUV's 93,087 molecules
#
# It ends with what was skipped, by reason.
set -euo pipefail
[[ ${EXLM_VENV:-/} == /* ]] || export EXLM_VENV=$PWD/$EXLM_VENV
CDPATH="" cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash scripts/setup_env.sh test
venv=${EXLM_VENV:-.venv}

"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check .

if [[ ${1:-} == --quick ]]; then
    shift
    set -- -m "not slow" "$@"
fi
# Two workers of one thread each are faster than two that compete for the same cores.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
exec "$venv/bin/python" -m pytest -n 2 --dist loadfile --no-loadscope-reorder "$@"
