#!/usr/bin/env bash
# Fine-tunes a pre-trained model on a GLUE task and scores it on the development set.
#
#   bash scripts/finetune_glue.sh TASK CHECKPOINT DATA SAVE [options] [fairseq-train's flags]
#
#   TASK        MNLI, QQP, QNLI, SST-2, CoLA, RTE, MRPC or STS-B
#   CHECKPOINT  of a pre-training, or a folder for transformers: ExLM, one of its ablations, or the MLM; or of a
#               fine-tuning on MNLI, as RoBERTa's recipe has it for RTE, MRPC and STS-B
#   DATA        a folder made by prepare_glue.py: the one with TASK-bin
#   SAVE        the folder of this run: train.log, checkpoint_best.pt, predictions/SPLIT.tsv, result.json
#               and, with --test, submission/
#
# If interrupted, rerun the same command to resume. A SAVE that holds a run of other settings, data or weights is
# refused (SAVE/manifest.json). Further options are passed to fairseq-train and override configs/finetune/:
#
#   --lr X --batch-size N --max-epoch N --warmup-ratio R
#   --metrics NAME,...       of fs_plugins/finetuning/glue/metrics.py; by the first, checkpoint_best.pt is chosen
#
# --batch-size is that of an update, in as many steps as --update-freq says; --warmup-ratio is relative to all updates.
# --print shows the commands with all of their flags.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# data: TASK-bin. flags: the head, the checkpoint to start from, its architecture and sizes, configs/finetune/, batch,
# devices, the user's own.
settle lib.finetuning.launch glue "$@"
run fairseq-train "$data" --user-dir "$root/fs_plugins" --save-dir "$save" --task glue --criterion sentence_prediction \
    --shorten-method truncate --required-batch-size-multiple 1 \
    --log-format json --log-interval 100 "${flags[@]}"
evaluate
