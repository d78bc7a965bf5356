#!/usr/bin/env bash
# Fine-tunes a pre-trained model on a GLUE task; see --help. All of it is in finetune_glue.py.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_python


exec "$python" "$root/scripts/finetune_glue.py" "$@"
