#!/usr/bin/env bash
# Pre-trains one model on text.
#
#   bash scripts/pretrain_text.sh MODEL SIZE DATA SAVE [options] [fairseq-train's flags]
#
#   MODEL  exlm, mlm or repeated-mlm; of the paper's tables 2 and 13: exlm-1d-rope, exlm-no-transitions,
#          exlm-sparse (configs/model/)
#   SIZE   base or large: the paper's text models (table 10); paper, small or smoke: the study of [MASK] (table 5);
#          with their hyper-parameters, in configs/pretrain/
#   DATA   a folder made by prepare_text.py or fairseq-preprocess --only-source; or several, joined by ':'
#   SAVE   the folder for checkpoints and log
#
# If interrupted, rerun the same command to resume. A SAVE that holds a run of other settings or data is refused
# (SAVE/manifest.json). Further options are passed to fairseq-train and override configs/. --batch-size is that of an
# update: it is split over the GPUs and, with --update-freq, over as many steps as --tokens-per-gpu requires; if you
# give --update-freq too, both have fairseq's meaning. To train on several machines, start one process per GPU with
# torchrun (docs/data.md). --print shows the command, with all of its flags, and the cost of the run.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# flags: configs/ for model and size, batch, devices, the user's own. fairseq saves and validates by updates, never by
# epochs; one checkpoint is enough to resume from.
settle lib.run.pretraining text "$@"
run fairseq-train "$data" --user-dir "$root/fs_plugins" --save-dir "$save" --keep-interval-updates 1 \
    --validate-interval 1000000 --required-batch-size-multiple 1 --log-format json "${flags[@]}"
