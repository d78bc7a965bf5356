#!/usr/bin/env bash
# Pre-trains one model on text with the hyper-parameters of configs/; see --help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
configs=$root/configs

usage() {
    cat <<'HELP'
Pre-trains one model on text.

    bash scripts/pretrain_text.sh MODEL SIZE DATA SAVE [options] [fairseq-train's flags]

  MODEL   exlm, exlm-1d-rope, exlm-no-transitions, exlm-sparse, mlm or repeated-mlm (configs/model/)
  SIZE    smoke, small or paper (configs/size/)
  DATA    a folder made by fairseq-preprocess --only-source
  SAVE    the folder for the checkpoints; a run that was interrupted goes on from there

  --k K               states of a masked token, or copies of each token; 1 to 16 (default: 4; mlm has none)
  --p P               share of the tokens that are masked (default: that of the recipe)
  --updates N         updates in all (default: that of the recipe and size)
  --recipe NAME       hyper-parameters, a file of configs/pretrain/ (default: table5)
  --tokens-per-gpu N  tokens of a step on each GPU, after expansion or repetition (default: 32768)
  --cpu, --gpus N     what to train on (default: the visible GPUs, else the CPU)
  --print             show fairseq-train's command instead of running it
  -h, --help          this text

Flags of fairseq-train win over those of configs/. The batch size of configs/ is that of an update: it is split over the
GPUs and, with --update-freq, over as many steps as --tokens-per-gpu asks for.

Environment: EXLM_PYTHON, the Python to train with (default: .venv's, else python3); CUDA_VISIBLE_DEVICES.
HELP
}

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 2
}

one_of() { # one_of WHAT VALUE FOLDER: the file FOLDER/VALUE.flags has to be there
    local known=("$3"/*.flags)
    known=("${known[@]##*/}")
    [[ $2 =~ ^[a-z0-9-]+$ && -e $3/$2.flags ]] || fail "unknown $1 '$2': there are ${known[*]%.flags}"
}

for argument; do
    [[ $argument != -h && $argument != --help ]] || { usage && exit 0; }
done
(($# >= 4)) || fail "give MODEL, SIZE, DATA and SAVE; see --help"
model=$1 size=$2 data=$3 save=$4
shift 4

k='' p='' updates='' recipe=table5 tokens_per_gpu=32768 gpus='' show='' extra=()
while (($#)); do
    case $1 in
    --k | --p | --updates | --recipe | --tokens-per-gpu | --gpus)
        (($# > 1)) || fail "$1 needs a value; see --help"
        name=${1#--}
        printf -v "${name//-/_}" '%s' "$2"
        shift
        ;;
    --cpu) gpus=0 ;;
    --print) show=yes ;;
    *) extra+=("$1") ;;
    esac
    shift
done

one_of model "$model" "$configs/model"
one_of size "$size" "$configs/size"
one_of recipe "$recipe" "$configs/pretrain"
[[ -n $show || -e $data/dict.txt ]] || fail "$data/dict.txt is not there: DATA is a folder made by fairseq-preprocess --only-source"
if [[ $model == mlm ]]; then
    [[ -z $k || $k == 1 ]] || fail "--k $k: the mlm has one state for each token; repeated-mlm and exlm have k"
    k=1
fi
: "${k:=4}"
[[ $k =~ ^([1-9]|1[0-6])$ ]] || fail "--k '$k': give a whole number from 1 to 16"
[[ -z $p || $p =~ ^0?\.[0-9]*[1-9][0-9]*$ ]] || fail "--p '$p': give a share between 0 and 1, such as 0.15"
[[ -z $updates || $updates =~ ^[1-9][0-9]*$ ]] || fail "--updates '$updates': give a whole number, 1 or more"
[[ $tokens_per_gpu =~ ^[1-9][0-9]*$ ]] || fail "--tokens-per-gpu '$tokens_per_gpu': give a whole number, 1 or more"
[[ -z $gpus || $gpus =~ ^[0-9]+$ ]] || fail "--gpus '$gpus': give a whole number"
if [[ -z $gpus && -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
    IFS=, read -ra devices <<<"$CUDA_VISIBLE_DEVICES"
    gpus=${#devices[@]}
elif [[ -z $gpus ]]; then
    gpus=$({ nvidia-smi -L 2>/dev/null || true; } | grep -c '^GPU' || true)
fi

flags=()
add_flags() { # the words of a flag file, without comments
    local line words
    while IFS= read -r line || [[ -n $line ]]; do
        read -ra words <<<"${line%%#*}"
        flags+=(${words[@]+"${words[@]}"})
    done <"$1"
}
add_flags "$configs/pretrain/$recipe.flags"
add_flags "$configs/size/$size.flags"
add_flags "$configs/model/$model.flags"
[[ -z $p ]] || flags+=(--mask-prob "$p")
[[ -z $updates ]] || flags+=(--max-update "$updates" --total-num-update "$updates")

value_of() { # value_of FLAG: its last value
    local i value=''
    for ((i = 0; i < ${#flags[@]} - 1; i++)); do
        [[ ${flags[i]} != "$1" ]] || value=${flags[i + 1]}
    done
    printf '%s' "$value"
}

# A short run would be over before the warm-up is.
total_updates=$(value_of --max-update)
if (($(value_of --warmup-updates) > total_updates / 2)); then
    flags+=(--warmup-updates "$(((total_updates + 9) / 10))")
fi

tokens=$(value_of --tokens-per-sample)
batch=$(value_of --batch-size)
case $model in
mlm) expanded=$tokens flags+=(--max-positions "$tokens") ;;
repeated-mlm) expanded=$((tokens * k)) flags+=(--repeat-times "$k" --max-positions "$((tokens * k))") ;;
exlm*)
    millionths=$(LC_ALL=C printf '%.0f' "$(value_of --mask-prob)e6")
    expanded=$((tokens + tokens * millionths * (k - 1) / 1000000))
    # k more than table 5's tokens * k, for the </s> that ends a block cut in mid-sentence
    flags+=(--ext-state-num "$k" --max-positions "$((tokens * k + k))")
    ;;
esac

# One update of `batch` sentences = workers x steps x sentences of a step
workers=$((gpus > 0 ? gpus : 1))
((batch % workers == 0)) || fail "a batch of $batch sentences cannot be split evenly over $workers GPUs"
sentences=$((batch / workers)) steps=1
while ((sentences % 2 == 0 && sentences * expanded > tokens_per_gpu)); do
    sentences=$((sentences / 2)) steps=$((steps * 2))
done
flags+=(--batch-size "$sentences" --update-freq "$steps" --distributed-world-size "$workers")

if ((gpus == 0)); then
    flags+=(--cpu --num-workers 0)
else
    flags+=(--fp16 --fp16-scale-tolerance 0.1 --fp16-scale-window 50)
fi

# fairseq saves and validates by updates, never by epochs; one checkpoint is enough to go on from.
python=${EXLM_PYTHON:-}
[[ -n $python || ! -x $root/.venv/bin/python ]] || python=$root/.venv/bin/python
command=(
    "${python:-python3}" -m fairseq_cli.train "$data" --user-dir "$root/fs_plugins" --save-dir "$save"
    --no-epoch-checkpoints --keep-interval-updates 1 --save-interval 1000000 --validate-interval 1000000
    --log-format json "${flags[@]}" ${extra[@]+"${extra[@]}"}
)
if [[ -n $show ]]; then
    printf '%q ' "${command[@]}"
    echo
else
    exec "${command[@]}"
fi
