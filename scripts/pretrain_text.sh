#!/usr/bin/env bash
# Pre-trains one model on text:
#
#   bash scripts/pretrain_text.sh MODEL SIZE DATA SAVE [options] [fairseq-train's flags]
#
# --help lists the options; --print shows the command, with all of its flags, and what the run will cost.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# recipes/launch.py fills in @data, @save and @flags: the files of configs/ for the model, the recipe and the size,
# the batch of a step, the devices, and the user's own flags, in the order in which the last one counts.
# fairseq saves and validates by updates, never by epochs; one checkpoint is enough to resume from.
exec "$python" -m recipes.pretraining text \
    fairseq-train @data --user-dir "$root/fs_plugins" --save-dir @save \
    --no-epoch-checkpoints --keep-interval-updates 1 --save-interval 1000000 --validate-interval 1000000 \
    --log-format json @flags -- "$@"
