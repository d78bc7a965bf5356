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

# recipes/launch.py fills in @data, @start (--finetune-from-model, or nothing with --scratch) and @flags: the
# checkpoint's architecture and sizes, configs/finetune/, the metric of the best epoch, batch, devices, the user's own.
# fairseq-train reads --finetune-from-model only if SAVE has no checkpoint to resume from.
exec "$python" -m recipes.finetune_moleculenet \
    fairseq-train @data --user-dir "$root/fs_plugins" --save-dir @save @start \
    --task molecule_property --criterion molecule_property \
    --find-unused-parameters --required-batch-size-multiple 1 --no-epoch-checkpoints --log-format json @flags \
    then python -m recipes.moleculenet.evaluate @save @data --seed @seed @evaluation \
    then rm -f @save/checkpoint_last.pt -- "$@"
