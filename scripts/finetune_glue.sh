#!/usr/bin/env bash
# Fine-tunes a pre-trained model on a GLUE task and scores it on the development set:
#
#   bash scripts/finetune_glue.sh TASK CHECKPOINT DATA SAVE [options] [fairseq-train's flags]
#
# --help lists the options; --print shows the command with all of its flags. Writes SAVE/train.log,
# SAVE/predictions/SPLIT.tsv, SAVE/result.json and, with --test, SAVE/submission/.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# recipes/launch.py fills in @data (TASK-bin), @start (the checkpoint to start from) and @flags: fairseq's task and head,
# the checkpoint's architecture and sizes, configs/finetune/, batch, devices, the user's own flags.
# fairseq-train reads --finetune-from-model only if SAVE has no checkpoint to resume from.
exec "$python" -m recipes.finetune_glue \
    fairseq-train @data --user-dir "$root/fs_plugins" --save-dir @save \
    --finetune-from-model @start --criterion glue_prediction \
    --shorten-method truncate --find-unused-parameters --required-batch-size-multiple 1 \
    --best-checkpoint-metric score --maximize-best-checkpoint-metric \
    --no-epoch-checkpoints --log-format json --log-interval 100 @flags \
    then python -m recipes.glue.evaluate @save @data @evaluation -- "$@"
