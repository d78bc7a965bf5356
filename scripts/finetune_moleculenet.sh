#!/usr/bin/env bash
# Fine-tunes a checkpoint on a set of MoleculeNet with table 8's hyper-parameters, and tests it; see --help.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
configs=$configs/finetune

usage() {
    cat <<'HELP'
Fine-tunes a checkpoint on molecular properties, once for each seed, and tests the best epoch of each.

    bash scripts/finetune_moleculenet.sh DATASET CHECKPOINT DATA SAVE [options] [fairseq-train's flags]

  DATASET     bace, bbbp, tox21, sider, muv, clintox or toxcast: whose hyper-parameters (configs/finetune/table8/);
              for data of one's own that of the set most like it
  CHECKPOINT  of exlm_*, mlm_*, p_roberta* or p_roberta_ext_denselink*, pre-trained on SMILES
  DATA        a folder made by scripts/prepare_moleculenet.py with the dictionary of the pre-training
  SAVE        the folder for the results: SAVE/seed-N/ has checkpoint_best.pt (by the validation set: highest
              ROC-AUC, or lowest RMSE), train.log, valid and test.predictions.csv and metrics.json

  --scratch        the same architecture, untrained
  --seeds A,B      (default: 1,2,3)
  --epochs N       instead of table 8's; the warm-up stays the same share
  --cpu            train on the CPU (default: one GPU where there is one)
  --print          show fairseq-train's commands instead of running them
  -h, --help       this text

Flags of fairseq-train win over those of configs/; --batch-size is that of an update, in as many steps as --update-freq
says. Seeds that are finished are skipped; one that was interrupted goes on from its last epoch. Molecules of more than
512 tokens are read up to there (metrics.json counts them). When a seed is finished, what only going on with its
training needs (checkpoint_last.pt) is removed.

Environment: EXLM_PYTHON, the Python to train with (default: .venv's, else python3); CUDA_VISIBLE_DEVICES.
HELP
}

for argument; do
    [[ $argument != -h && $argument != --help ]] || { usage && exit 0; }
done
(($# >= 4)) || fail "give DATASET, CHECKPOINT, DATA and SAVE; see --help"
dataset=$1 checkpoint=$2 data=$3 save=$4
shift 4

seeds='1 2 3' epochs='' scratch='' gpus='' show='' extra=()
while (($#)); do
    case $1 in
    --seeds | --epochs)
        (($# > 1)) || fail "$1 needs a value; see --help"
        printf -v "${1#--}" '%s' "$2"
        shift
        ;;
    --scratch) scratch=yes ;;
    --cpu) gpus=0 ;;
    --print) show=yes ;;
    *) refuse_own_flag "$1" && extra+=("$1") ;;
    esac
    shift
done

one_of dataset "$dataset" "$configs/table8"
seeds=${seeds//,/ }
[[ $seeds =~ ^\ *[0-9]+(\ +[0-9]+)*\ *$ ]] || fail "--seeds '$seeds': give whole numbers, such as \"1 2 3\""
[[ -z $epochs || $epochs =~ ^[1-9][0-9]*$ ]] || fail "--epochs '$epochs': give a whole number, 1 or more"
[[ -e $data/molecules.json ]] || fail "$data/molecules.json is not there: DATA is a folder made by scripts/prepare_moleculenet.py"
[[ -f $checkpoint ]] || fail "the checkpoint $checkpoint is not there, or no file"
checkpoint=$(realpath "$checkpoint") data=$(realpath "$data")
count_gpus

find_python
add_flags "$configs/table8.flags"
add_flags "$configs/table8/$dataset.flags"
[[ -z $epochs ]] || flags+=(--max-epoch "$epochs")
add_device_flags
flags+=(${extra[@]+"${extra[@]}"})

prepared=$(sed -n 's/.*"dataset": *"\([a-z0-9]*\)".*/\1/p' "$data/molecules.json")
[[ $prepared == "$dataset" || ! -e $configs/table8/$prepared.flags ]] ||
    printf 'warning: %s was prepared as %s, and is fine-tuned with the hyper-parameters of %s\n' "$data" "$prepared" "$dataset" >&2

# Checks that checkpoint and data fit; what it prints: molecules, metric, the model's flags
planned=$("$python" -m recipes.moleculenet.plan "$checkpoint" "$data") || exit 2
read -r molecules metric model <<<"$planned"
read -ra model <<<"$model"

batch=$(value_of --batch-size) ratio=$(value_of --warmup-ratio)
steps=$(steps_of_batch "$batch") || exit 2
step=()
((steps == 1)) || step=(--batch-size "$((batch / steps))")
updates=$(($(value_of --max-epoch) * ((molecules + batch - 1) / batch)))
millionths=$(LC_ALL=C printf '%.0f' "${ratio}e6")
kept=()
for ((i = 0; i < ${#flags[@]}; i++)); do # fairseq knows no --warmup-ratio
    case ${flags[i]} in
    --warmup-ratio) i=$((i + 1)) ;;
    --warmup-ratio=*) ;;
    *) kept+=("${flags[i]}") ;;
    esac
done
schedule=(--total-num-update "$updates" --warmup-updates "$((updates * millionths / 1000000))")
best=(--best-checkpoint-metric "$metric")
[[ $metric != auc ]] || best+=(--maximize-best-checkpoint-metric)
start=()
[[ -n $scratch ]] || start=(--finetune-from-model "$checkpoint")

# What the commands don't show: the data (molecules.json has its hashes) and the weights.
inputs="# molecules.json $(cksum <"$data/molecules.json"), checkpoint $(cksum <"$checkpoint")"

for seed in $seeds; do
    folder=$save/seed-$seed
    command=(
        "$python" -m fairseq_cli.train "$data" --user-dir "$root/fs_plugins" --save-dir "$folder"
        --task molecule_property --criterion molecule_property
        ${start[@]+"${start[@]}"} "${model[@]}" "${schedule[@]}" "${best[@]}"
        --find-unused-parameters --distributed-world-size 1 --required-batch-size-multiple 1
        --no-epoch-checkpoints --log-format json "${kept[@]}" ${step[@]+"${step[@]}"} --seed "$seed"
    )
    if [[ -n $show ]]; then
        printf '%q ' "${command[@]}"
        echo
        continue
    fi
    claim_folder "$folder" "$inputs" "${command[@]:1}"
    if [[ -e $folder/metrics.json ]]; then
        echo "seed $seed: finished before, $folder/metrics.json"
        continue
    fi
    echo "seed $seed: training, log in $folder/train.log"
    "${command[@]}" >>"$folder/train.log" 2>&1 || {
        tail -n 5 "$folder/train.log" >&2
        fail "the training of seed $seed failed: $folder/train.log says why"
    }
    test=("$python" -m recipes.moleculenet.evaluate "$folder/checkpoint_best.pt" "$data" "$folder" --seed "$seed" --truncate)
    ((gpus > 0)) || test+=(--device cpu)
    printf 'seed %s: ' "$seed"
    "${test[@]}"
    rm -f "$folder/checkpoint_last.pt"
done
