#!/usr/bin/env bash
# Pre-trains one model on molecules, written as SMILES.
#
#   bash scripts/pretrain_smiles.sh MODEL SIZE DATA SAVE [options] [fairseq-train's flags]
#
#   MODEL  exlm, or mlm: SMILES-BERT, the same encoder without states; repeated-mlm, each token k times (section 3.1)
#   SIZE   smoke, small or paper (configs/pretrain/smiles/)
#   DATA   a folder made by prepare_smiles.py
#   SAVE   the folder for checkpoints and log
#
# As pretrain_text.sh (see its --help), but --max-tokens is the batch of an update, before repetition. A SAVE that
# holds a run of other settings or data is refused (SAVE/manifest.json).
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

settle lib.run.pretraining smiles "$@"
run fairseq-train "$data" --user-dir "$root/fs_plugins" --save-dir "$save" --keep-interval-updates 1 \
    --validate-interval 1000000 --log-format json "${flags[@]}"
