#!/usr/bin/env bash
# Fine-tunes a pre-trained model on a GLUE task; see --help. All of it is in finetune_glue.py.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${EXLM_PYTHON:-}
[[ -n $python || ! -x $root/.venv/bin/python ]] || python=$root/.venv/bin/python
# the plugin beside this script, as for pre-training, whatever else is installed
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
exec "${python:-python3}" "$root/scripts/finetune_glue.py" "$@"
