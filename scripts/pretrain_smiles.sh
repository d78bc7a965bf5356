#!/usr/bin/env bash
# Pre-trains one model on molecules with the hyper-parameters of configs/; see --help.
set -euo pipefail
# shellcheck source=scripts/pretrain_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/pretrain_common.sh"

usage() {
    cat <<'HELP'
Pre-trains one model on molecules, written as SMILES.

    bash scripts/pretrain_smiles.sh MODEL SIZE DATA SAVE [options] [fairseq-train's flags]

  MODEL   exlm, or mlm: SMILES-BERT, the same encoder without states (configs/model/smiles/)
  SIZE    smoke, small or paper (configs/size/smiles/)
  DATA    a folder made by scripts/prepare_smiles.py
  SAVE    the folder for the checkpoints; a run that was interrupted goes on from there, one of other settings or data
          (pretraining.txt) is refused

  --k K               states of a masked token; 1 to 16 (default: 2; mlm has none)
  --p P               share of the tokens that are masked (default: that of the recipe)
  --updates N         updates in all (default: that of the recipe and size)
  --recipe NAME       hyper-parameters, a file of configs/pretrain/ (default: table7)
  --tokens-per-gpu N  tokens of a step on each GPU, after expansion (default: 32768)
  --cpu, --gpus N     what to train on (default: the visible GPUs, else the CPU)
  --print             show fairseq-train's command instead of running it
  -h, --help          this text

Flags of fairseq-train win over those of configs/. --max-tokens are those of an update, in configs/ and here: they are
split over the GPUs and, with --update-freq, over as many steps as --tokens-per-gpu asks for. If you give --update-freq
too, both are fairseq's own.

Environment: EXLM_PYTHON, the Python to train with (default: .venv's, else python3); CUDA_VISIBLE_DEVICES.
HELP
}

# shellcheck disable=SC2034  # read by pretrain_common.sh
models=$configs/model/smiles sizes=$configs/size/smiles recipe=table7 k_default=2
# shellcheck disable=SC2034
data_maker='scripts/prepare_smiles.py' k_models='exlm has k'
read_arguments "$@"
load_flags

# As many positions for both, so that both are fine-tuned on the same molecules; k more for a </s> that is appended.
length=$(value_of --tokens-per-sample)
states=$((k > k_default ? k : k_default))
[[ $model == mlm ]] || flags+=(--ext-state-num "$k")
flags+=(--max-positions "$((length * states + states))")

# One update of `update` tokens = workers x steps x tokens of a step
[[ -n $(value_of --max-tokens) ]] || fail "--recipe $recipe: molecules need a recipe with --max-tokens, such as table7"
if split_update --max-tokens; then
    share=$((update / workers))
    steps=$((($(expanded_length "$share") + tokens_per_gpu - 1) / tokens_per_gpu))
    ((share / steps >= length)) || fail "an update of $update tokens on $workers GPUs in $steps steps has $((share / steps)) \
tokens a step, and a molecule may have $length (--tokens-per-sample): fewer --gpus, or more --tokens-per-gpu"
    flags+=(--max-tokens "$((share / steps))" --update-freq "$steps")
fi

train
