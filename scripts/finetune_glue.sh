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

# Sets data (TASK-bin), save, start (the checkpoint to start from), seed, evaluation, and the flags:
#   task    fairseq's task, head and validation sets
#   model   architecture and sizes of the checkpoint
#   recipe  optimizer, schedule, dropout, of configs/finetune/
#   batch, device, user: as in pretrain_text.sh
plan finetune_glue "$@"

# fairseq-train reads --finetune-from-model only if SAVE has no checkpoint to resume from.
# shellcheck disable=SC2154
hold fairseq-train "$data" --user-dir "$root/fs_plugins" --save-dir "$save" --seed "$seed" \
    --finetune-from-model "$start" --criterion glue_prediction "${task[@]}" \
    "${model[@]}" "${recipe[@]}" "${batch[@]}" "${device[@]}" \
    --shorten-method truncate --find-unused-parameters --required-batch-size-multiple 1 \
    --best-checkpoint-metric score --maximize-best-checkpoint-metric \
    --no-epoch-checkpoints --log-format json --log-interval 100 ${user[@]+"${user[@]}"}

"$python" -m recipes.glue.evaluate "$save" "$data" ${evaluation[@]+"${evaluation[@]}"}
