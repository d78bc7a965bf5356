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

# recipes/launch.py fills in @data, @start (the checkpoint to start from) and @flags: sizes of windows, questions and
# answers, the checkpoint's architecture and sizes, configs/finetune/, batch, devices, the user's own flags.
# fairseq-train reads --finetune-from-model only if SAVE has no checkpoint to resume from.
exec "$python" -m recipes.finetune_squad \
    fairseq-train @data --user-dir "$root/fs_plugins" --save-dir @save \
    --finetune-from-model @start --task squad2 --criterion squad2 --required-batch-size-multiple 1 \
    --best-checkpoint-metric f1 --maximize-best-checkpoint-metric \
    --no-epoch-checkpoints --save-interval-updates 1000 --keep-interval-updates 1 \
    --log-format json --log-interval 50 @flags \
    then python "$root/scripts/predict_squad.py" @save/checkpoint_best.pt @data @evaluation -- "$@"
