#!/usr/bin/env bash
# Pre-trains one model on text with the hyper-parameters of configs/; see --help.
set -euo pipefail
# shellcheck source=scripts/pretrain_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/pretrain_common.sh"

usage() {
    cat <<'HELP'
Pre-trains one model on text.

    bash scripts/pretrain_text.sh MODEL SIZE DATA SAVE [options] [fairseq-train's flags]

  MODEL   exlm, exlm-1d-rope, exlm-no-transitions, exlm-sparse, mlm or repeated-mlm (configs/model/)
  SIZE    base or large: the paper's text models, with table 10 (configs/pretrain/table10.flags); paper, small or smoke:
          the study of [MASK], with table 5 (configs/size/)
  DATA    a folder made by prepare_text.py or by fairseq-preprocess --only-source; several with ':' between them
  SAVE    the folder for the checkpoints; a run that was interrupted goes on from there, one of other settings or data
          (pretraining.txt) is refused

  --k K               states of a masked token, or copies of each token; 1 to 16 (default: 4; mlm has none)
  --p P               share of the tokens that are masked (default: that of the recipe)
  --updates N         updates in all (default: that of the recipe and size)
  --recipe NAME       hyper-parameters, a file of configs/pretrain/ (default: that of the size, see above)
  --tokens-per-gpu N  tokens of a step on each GPU, after expansion or repetition (default: 32768)
  --cpu, --gpus N     what to train on (default: the visible GPUs, else the CPU)
  --print             show fairseq-train's command instead of running it
  -h, --help          this text

Flags of fairseq-train win over those of configs/. --batch-size is that of an update, in configs/ and here: it is split
over the GPUs and, with --update-freq, over as many steps as --tokens-per-gpu asks for. If you give --update-freq too,
both are fairseq's own. On several machines start one process a GPU, each with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR
and MASTER_PORT, as torchrun does (docs/data.md).

Environment: EXLM_PYTHON, the Python to train with (default: .venv's, else python3); CUDA_VISIBLE_DEVICES.
HELP
}

# shellcheck disable=SC2034  # read by pretrain_common.sh
models=$configs/model sizes=$configs/size k_default=4
# shellcheck disable=SC2034
data_maker='prepare_text.py or fairseq-preprocess --only-source' k_models='repeated-mlm and exlm have k'
case ${2:-} in
base | large) recipe=table10 ;;
*) recipe=table5 ;;
esac
read_arguments "$@"
load_flags

tokens=$(value_of --tokens-per-sample)
case $model in
mlm) expanded=$tokens flags+=(--max-positions "$tokens") ;;
repeated-mlm) expanded=$((tokens * k)) flags+=(--repeat-times "$k" --max-positions "$((tokens * k))") ;;
exlm*)
    expanded=$(expanded_length "$tokens")
    # k more than table 5's tokens * k, for the </s> that ends a block cut in mid-sentence
    flags+=(--ext-state-num "$k" --max-positions "$((tokens * k + k))")
    ;;
esac

# One update of `update` sentences = workers x steps x sentences of a step
if split_update --batch-size; then
    ((update % workers == 0)) || fail "a batch of $update sentences cannot be split evenly over $workers GPUs"
    sentences=$((update / workers)) steps=1
    while ((sentences % 2 == 0 && sentences * expanded > tokens_per_gpu)); do
        sentences=$((sentences / 2)) steps=$((steps * 2))
    done
    flags+=(--batch-size "$sentences" --update-freq "$steps")
fi

train
