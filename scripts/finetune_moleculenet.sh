#!/usr/bin/env bash
# Fine-tunes a pre-trained model on molecular properties, and tests the epoch that is best on the validation set
# (by ROC-AUC; of values by RMSE, of several by that in standard deviations).
#
#   bash scripts/finetune_moleculenet.sh DATASET CHECKPOINT DATA SAVE [options] [fairseq-train's flags]
#
#   DATASET     names the hyper-parameters: those of table 8 for bace, bbbp, tox21, sider, muv, clintox and toxcast,
#               and defaults for any other name
#   CHECKPOINT  of a pre-training, or a folder for transformers such as pretrained/mlm-molecules
#   DATA        a folder made by prepare_moleculenet.py with the dictionary of the pre-training
#   SAVE        the folder of this run: train.log, checkpoint_best.pt, {valid,test}.predictions.csv and, last, result.json
#
# As finetune_glue.sh (see its --help), with configs/finetune/table8. Of molecules of more than 512 tokens the start is
# read (result.json counts them). A SAVE that holds a run of other settings, data or weights is refused
# (SAVE/manifest.json).
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

settle lib.finetuning.launch moleculenet "$@"
run fairseq-train "$data" --user-dir "$root/fs_plugins" --save-dir "$save" --task molecule_property \
    --criterion molecule_property --required-batch-size-multiple 1 --log-format json "${flags[@]}"
evaluate
