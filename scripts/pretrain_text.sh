#!/usr/bin/env bash
# Pre-trains one model on text:
#
#   bash scripts/pretrain_text.sh MODEL SIZE DATA SAVE [options] [fairseq-train's flags]
#
# --help lists the options; --print shows the command, with all of its flags, and what the run will cost.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# Sets data and save, and the flags, most of them from configs/:
#   model   task, criterion, architecture, states, positions
#   recipe  optimizer, schedule, masking
#   batch   of a step, and --update-freq: together the batch of an update
#   device  --cpu, or half precision on GPUs; distributed training
#   user    further flags of the command line
plan pretrain_text "$@"

# fairseq saves and validates by updates, never by epochs; one checkpoint is enough to resume from.
# shellcheck disable=SC2154
hold fairseq-train "$data" --user-dir "$root/fs_plugins" --save-dir "$save" \
    "${model[@]}" "${recipe[@]}" "${batch[@]}" "${device[@]}" \
    --no-epoch-checkpoints --keep-interval-updates 1 --save-interval 1000000 --validate-interval 1000000 \
    --log-format json ${user[@]+"${user[@]}"}
