#!/usr/bin/env bash
# Fine-tunes a pre-trained model on molecular properties and tests it:
#
#   bash scripts/finetune_moleculenet.sh DATASET CHECKPOINT DATA SAVE [options] [fairseq-train's flags]
#
# --help lists the options; --print shows the command with all of its flags. Writes SAVE/train.log,
# SAVE/checkpoint_best.pt, SAVE/{valid,test}.predictions.csv and, last, SAVE/metrics.json.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# Sets data, save, seed, evaluation, start (--finetune-from-model, or nothing with --scratch), and the flags:
#   model   architecture and sizes of the checkpoint
#   recipe  optimizer, schedule, dropout, of configs/finetune/table8.flags and table8/DATASET.flags
#   best    the metric of the best epoch
#   batch, device, user: as in pretrain_text.sh
plan finetune_moleculenet "$@"

# fairseq-train reads --finetune-from-model only if SAVE has no checkpoint to resume from.
# shellcheck disable=SC2154
hold fairseq-train "$data" --user-dir "$root/fs_plugins" --save-dir "$save" --seed "$seed" \
    ${start[@]+"${start[@]}"} --task molecule_property --criterion molecule_property \
    "${model[@]}" "${recipe[@]}" "${best[@]}" "${batch[@]}" "${device[@]}" \
    --find-unused-parameters --required-batch-size-multiple 1 \
    --no-epoch-checkpoints --log-format json ${user[@]+"${user[@]}"}

"$python" -m recipes.moleculenet.evaluate "$save" "$data" --seed "$seed" ${evaluation[@]+"${evaluation[@]}"}
rm -f "$save/checkpoint_last.pt" # only needed to resume
