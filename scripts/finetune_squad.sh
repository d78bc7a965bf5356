#!/usr/bin/env bash
# Fine-tunes a pre-trained model on SQuAD 2.0, answers the validation questions and scores the answers:
#
#   bash scripts/finetune_squad.sh CHECKPOINT DATA SAVE [options] [fairseq-train's flags]
#
# --help lists the options; --print shows the command with all of its flags. Writes SAVE/train.log,
# SAVE/checkpoint_best.pt, SAVE/predictions.json and its like and, last, SAVE/scores.json.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# Sets data, save, start (the checkpoint to start from), seed, evaluation, and the flags:
#   windows  sizes of windows, questions and answers in tokens
#   model    architecture and sizes of the checkpoint
#   recipe   optimizer, schedule, dropout, of configs/finetune/squad2.flags
#   batch, device, user: as in pretrain_text.sh
plan finetune_squad "$@"

# fairseq-train reads --finetune-from-model only if SAVE has no checkpoint to resume from.
# shellcheck disable=SC2154
hold fairseq-train "$data" --user-dir "$root/fs_plugins" --save-dir "$save" --seed "$seed" \
    --finetune-from-model "$start" --task squad2 --criterion squad2 "${windows[@]}" \
    "${model[@]}" "${recipe[@]}" "${batch[@]}" "${device[@]}" --required-batch-size-multiple 1 \
    --best-checkpoint-metric f1 --maximize-best-checkpoint-metric \
    --no-epoch-checkpoints --save-interval-updates 1000 --keep-interval-updates 1 \
    --log-format json --log-interval 50 ${user[@]+"${user[@]}"}

"$python" "$root/scripts/predict_squad.py" "$save/checkpoint_best.pt" "$data" ${evaluation[@]+"${evaluation[@]}"}
