#!/usr/bin/env bash
# Fine-tunes one checkpoint on SQuAD 2.0 with the hyper-parameters of configs/; see --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
Fine-tunes a pre-trained model on SQuAD 2.0, answers the validation questions and measures exact match and F1.

    bash scripts/finetune_squad.sh CHECKPOINT DATA SAVE [options] [fairseq-train's flags]

  CHECKPOINT  of a pre-training: ExLM, its ablations, or the vanilla MLM; its architecture is read from it
  DATA        a folder made by scripts/prepare_squad.py, with train and valid
  SAVE        the folder for the results, SAVE/seedN of each seed; a run that was interrupted goes on from there

  --seeds A,B,...     one run with each (default: 1; the paper: five, of which it reports the median)
  --lr X, --batch N, --epochs N, --warmup-ratio R
                      of the paper's grid (default: those of configs/finetune/squad2.flags)
  --window N          longest input in tokens (default: 512, or the length of the pre-training if that is less)
  --stride N          from one window of a context to the next (default: 128 of 512, else in proportion)
  --tokens-per-gpu N  tokens of a step on each GPU (default: 32768)
  --cpu, --gpus N     what to train on (default: the visible GPUs, else the CPU)
  --print             show fairseq-train's commands instead of running them
  -h, --help          this text

SAVE/seedN holds checkpoint_best.pt (by F1 on valid), train.log, predictions.json, nbest_predictions.json,
null_odds.json, best_answers.json and scores.json; a seed that has scores.json is not run again, and one with other
settings, data or weights (command.txt) is refused. Flags of fairseq-train win over those of configs/.

Environment: EXLM_PYTHON, the Python to train with (default: .venv's, else python3); CUDA_VISIBLE_DEVICES.
HELP
}

for argument; do
    [[ $argument != -h && $argument != --help ]] || { usage && exit 0; }
done
(($# >= 3)) || fail "give CHECKPOINT, DATA and SAVE; see --help"
checkpoint=$1 data=$2 save=$3
shift 3
[[ $checkpoint != -* && $data != -* && $save != -* ]] || fail "give CHECKPOINT, DATA and SAVE first; see --help"

seeds=1 lr='' batch='' epochs='' warmup_ratio='' window='' stride='' tokens_per_gpu=32768 gpus='' show='' extra=()
while (($#)); do
    case $1 in
    --seeds | --lr | --batch | --epochs | --warmup-ratio | --window | --stride | --tokens-per-gpu | --gpus)
        (($# > 1)) || fail "$1 needs a value; see --help"
        name=${1#--}
        printf -v "${name//-/_}" '%s' "$2"
        shift
        ;;
    --cpu) gpus=0 ;;
    --print) show=yes ;;
    --max-sentences | --max-sentences=* | --batch-size | --batch-size=* | --update-freq | --update-freq=*)
        fail "${1%%=*} is worked out from --batch, --gpus and --tokens-per-gpu; see --help" ;;
    --max-epoch | --max-epoch=*) fail "${1%%=*} is set by --epochs; see --help" ;;
    *) refuse_own_flag "$1" && extra+=("$1") ;;
    esac
    shift
done

[[ -f $checkpoint ]] || fail "there is no checkpoint $checkpoint"
for file in dict.txt train.npz train.json valid.npz valid.json; do
    [[ -f $data/$file ]] || fail "$data/$file is not there: DATA is a folder made by scripts/prepare_squad.py"
done
[[ $data != *:* ]] || fail "$data: fairseq takes a folder without ':' in its name"
seeds=${seeds// /,}
[[ $seeds =~ ^[0-9]+(,[0-9]+)*$ ]] || fail "--seeds '$seeds': give whole numbers, such as 1,2,3"
[[ -z $(tr , '\n' <<<"$seeds" | sort | uniq -d) ]] || fail "--seeds '$seeds': give each seed once"
number='^([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?$'
[[ -z $lr || $lr =~ $number && ${lr%%[eE]*} == *[1-9]* ]] || fail "--lr '$lr': give a number above 0, such as 3e-5"
# Flags of the task that decide on the windows: they have to be known to the plan.
if given --window-tokens || given --doc-stride; then
    [[ -z $window$stride ]] || fail "give --window and --stride, or fairseq-train's --window-tokens and --doc-stride"
    window=$(value_of --window-tokens) stride=$(value_of --doc-stride)
    [[ -n $window ]] || fail "--doc-stride is given together with --window-tokens"
fi
task=()
for name in --max-question-tokens --max-answer-tokens; do
    ! given "$name" || task+=("$name" "$(value_of "$name")")
done
for name in --window-tokens --doc-stride --max-question-tokens --max-answer-tokens; do take_out "$name"; done
for name in batch epochs window stride tokens_per_gpu; do
    [[ -z ${!name} || ${!name} =~ ^[1-9][0-9]*$ ]] ||
        fail "--${name//_/-} '${!name}': give a whole number, 1 or more"
done
checkpoint=$(realpath "$checkpoint") data=$(realpath "$data")
count_gpus
workers=$((gpus > 0 ? gpus : 1))

add_flags "$configs/finetune/squad2.flags"
[[ -z $lr ]] || flags+=(--lr "$lr")
[[ -z $batch ]] || flags+=(--batch-size "$batch")
[[ -z $epochs ]] || flags+=(--max-epoch "$epochs")
flags+=(${task[@]+"${task[@]}"})
[[ -z $warmup_ratio ]] || flags+=(--warmup-ratio "$warmup_ratio")
[[ -z $window ]] || flags+=(--window-tokens "$window" --doc-stride "${stride:-$(((window + 3) / 4))}" --exact-window)
[[ -z $stride || -n $window ]] || fail "--stride is given together with --window"

find_python
planned=$("$python" -m recipes.squad.plan "$checkpoint" "$data" "${flags[@]}" \
    --workers "$workers" --tokens-per-gpu "$tokens_per_gpu") || exit 2
flags=()
while IFS= read -r word; do
    flags+=("$word")
done <<<"$planned"

add_device_flags
device=()
((gpus > 0)) || device=(--device cpu)
# the LM head and the transitions are not computed
((workers == 1)) || flags+=(--find-unused-parameters)
flags+=(--distributed-world-size "$workers")

# What the commands don't show: the data and the weights
if [[ -z $show ]]; then
    inputs="# data $(cat "$data"/{dict.txt,train.npz,train.json,valid.npz,valid.json} | cksum), checkpoint $(cksum <"$checkpoint")"
fi

folders=()
IFS=, read -ra seeds <<<"$seeds"
for seed in "${seeds[@]}"; do
    folder=$save/seed$seed
    folders+=("$folder")
    # fairseq takes --finetune-from-model where the folder has no checkpoint_last.pt to go on from
    command=(
        "$python" -m fairseq_cli.train "$data" --user-dir "$root/fs_plugins" --save-dir "$folder"
        --task squad2 --criterion squad2 --finetune-from-model "$checkpoint"
        --best-checkpoint-metric f1 --maximize-best-checkpoint-metric
        --no-epoch-checkpoints --save-interval-updates 1000 --keep-interval-updates 1
        --log-format json --log-interval 50 --seed "$seed" "${flags[@]}" ${extra[@]+"${extra[@]}"}
    )
    if [[ -n $show ]]; then
        printf '%q ' "${command[@]}"
        echo
        continue
    fi
    claim_folder "$folder" "$inputs" "${command[@]:1}"
    [[ ! -f $folder/scores.json ]] || continue
    "${command[@]}" 2>&1 | tee -a "$folder/train.log"
    "$python" "$root/scripts/predict_squad.py" "$folder/checkpoint_best.pt" "$data" ${device[@]+"${device[@]}"}
done
[[ -n $show ]] || "$python" -m recipes.squad.summary "${folders[@]}"
