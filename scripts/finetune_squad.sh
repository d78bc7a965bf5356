#!/usr/bin/env bash
# Fine-tunes a pre-trained model on SQuAD 2.0, answers the validation questions and scores the answers.
#
#   bash scripts/finetune_squad.sh CHECKPOINT DATA SAVE [options] [fairseq-train's flags]
#
#   CHECKPOINT  of a pre-training, or a folder for transformers: ExLM, one of its ablations, or the MLM
#   DATA        a folder made by prepare_squad.py with the dictionary of the pre-training
#   SAVE        the folder of this run: train.log, checkpoint_best.pt (by F1), predictions.json and, last,
#               result.json
#
# As finetune_glue.sh (see its --help), with configs/finetune/squad2.flags and four more options for the windows:
#
#   --window-tokens N        default: 512, or the length of the pre-training if shorter
#   --doc-stride N           default: a quarter of the window
#   --max-question-tokens N  default: 64, or half of the window if shorter; longer questions are cut
#   --max-answer-tokens N    default: 30, or a quarter of the window if shorter
#
# The batch of an update is split over the GPUs too. A SAVE that holds a run of other settings, data or weights is
# refused (SAVE/manifest.json).
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

settle lib.finetuning.launch squad "$@"
run fairseq-train "$data" --user-dir "$root/fs_plugins" --save-dir "$save" --task squad2 --criterion squad2 \
    --required-batch-size-multiple 1 --save-interval-updates 1000 --keep-interval-updates 1 \
    --log-format json --log-interval 50 "${flags[@]}"
evaluate
# what nothing resumes from any more
[[ -n $print || -z $first || " ${flags[*]}" == *" --keep-interval-updates"* ]] || rm -f "$save"/checkpoint_[0-9]*_[0-9]*.pt
