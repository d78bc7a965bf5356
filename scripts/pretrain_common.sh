# shellcheck shell=bash
# What pretrain_text.sh and pretrain_smiles.sh share; to be sourced. Such a script
#   1. defines usage, and sets models and sizes (folders of flag files), recipe, data_maker and k's default, k_default
#   2. read_arguments "$@"   checks what is asked; sets model, size, data, save, k, p, updates, gpus, workers, show, extra, ...
#   3. load_flags            puts the flag files' words into flags; value_of FLAG looks there
#   4. adds to flags what depends on k and on the batch
#   5. train                 runs fairseq-train, or shows the command
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# shellcheck disable=SC2034,SC2154  # the variables are the script's
read_arguments() {
    local argument name
    for argument; do
        [[ $argument != -h && $argument != --help ]] || { usage && exit 0; }
    done
    (($# >= 4)) || fail "give MODEL, SIZE, DATA and SAVE; see --help"
    model=$1 size=$2 data=$3 save=$4
    shift 4

    k='' p='' updates='' tokens_per_gpu=32768 gpus='' show='' extra=()
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
        --ext-state-num | --ext-state-num=* | --repeat-times | --repeat-times=*) fail "${1%%=*} is set by --k; see --help" ;;
        --save-dir | --save-dir=*) fail "--save-dir is SAVE; see --help" ;;
        --max-sentences | --max-sentences=*) fail "give --batch-size, which is that of an update" ;;
        *) extra+=("$1") ;;
        esac
        shift
    done

    one_of model "$model" "$models"
    one_of size "$size" "$sizes"
    one_of recipe "$recipe" "$configs/pretrain"
    [[ -n $show || -e ${data%%:*}/dict.txt ]] || fail "${data%%:*}/dict.txt is not there: DATA is a folder made by $data_maker"
    if [[ $model == mlm ]]; then
        [[ -z $k || $k == 1 ]] || fail "--k $k: the mlm has one state for each token; $k_models"
        k=1
    fi
    : "${k:=$k_default}"
    [[ $k =~ ^([1-9]|1[0-6])$ ]] || fail "--k '$k': give a whole number from 1 to 16"
    [[ -z $p || $p =~ ^0?\.[0-9]*[1-9][0-9]*$ ]] || fail "--p '$p': give a share between 0 and 1, such as 0.15"
    [[ $p != .* ]] || p=0$p
    [[ -z $updates || $updates =~ ^[1-9][0-9]*$ ]] || fail "--updates '$updates': give a whole number, 1 or more"
    [[ $tokens_per_gpu =~ ^[1-9][0-9]*$ ]] || fail "--tokens-per-gpu '$tokens_per_gpu': give a whole number, 1 or more"
    count_gpus
    find_workers
}

# How many processes train together. Alone, a script starts one a GPU; where RANK and its like are set, as torchrun and
# the SLURM example of docs/data.md do, it is itself one of WORLD_SIZE processes, on this machine or several.
# shellcheck disable=SC2034
find_workers() {
    local name
    workers=$((gpus > 0 ? gpus : 1)) distributed=()
    [[ -n ${RANK:-}${WORLD_SIZE:-} ]] || return 0
    for name in RANK WORLD_SIZE MASTER_ADDR MASTER_PORT; do
        [[ -n ${!name:-} ]] || fail "RANK or WORLD_SIZE is set, but not $name: processes that train together need all of \
RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (and LOCAL_RANK), as torchrun sets them"
    done
    for name in RANK WORLD_SIZE MASTER_PORT LOCAL_RANK; do
        [[ ${!name:-0} =~ ^[0-9]+$ ]] || fail "$name='${!name}': it has to be a whole number"
    done
    ((RANK < WORLD_SIZE)) || fail "RANK=$RANK: with WORLD_SIZE=$WORLD_SIZE it is 0 to $((WORLD_SIZE - 1))"
    workers=$WORLD_SIZE
    ((workers > 1)) || return 0
    distributed=(--distributed-rank "$RANK" --distributed-init-method "tcp://$MASTER_ADDR:$MASTER_PORT" --distributed-no-spawn)
    if ((gpus > 0)); then
        distributed+=(--device-id "$((${LOCAL_RANK:-$RANK} % gpus))")
    else
        distributed+=(--distributed-backend gloo --ddp-backend legacy_ddp)
    fi
}

load_flags() { # recipe, size and model, then what the options ask for
    local total_updates
    add_flags "$configs/pretrain/$recipe.flags"
    add_flags "$sizes/$size.flags"
    add_flags "$models/$model.flags"
    [[ -z $p ]] || flags+=(--mask-prob "$p")
    [[ -z $updates ]] || flags+=(--max-update "$updates" --total-num-update "$updates")
    # A short run would be over before the warm-up is.
    total_updates=$(value_of --total-num-update)
    [[ $total_updates =~ ^[1-9][0-9]*$ ]] || fail "--total-num-update '$total_updates': give a whole number, 1 or more"
    if (($(value_of --warmup-updates) > total_updates / 2)); then
        flags+=(--warmup-updates "$(((total_updates + 9) / 10))")
    fi
}

split_update() { # split_update FLAG: whether to split FLAG, an update's batch, over workers and steps; takes it from extra
    if given --update-freq; then # both in fairseq's own sense: a step's batch, and steps
        given "$1" || fail "--update-freq is worked out from $1, the batch of an update, and --tokens-per-gpu: give one of \
those, or $1 of a step together with --update-freq"
        return 1
    fi
    update=$(value_of "$1")
    [[ $update =~ ^[1-9][0-9]*$ ]] || fail "$1 '$update': give a whole number, 1 or more"
    take_out "$1"
}

claim_save() { # makes SAVE and holds it for this run; refuses one that has another pre-training
    local parts part name settings
    [[ ${RANK:-0} == 0 ]] || return 0 # of several processes the first speaks for all
    hold_folder "$save" SAVE
    settings="$model $size --recipe $recipe --k $k --p $(value_of --mask-prob)"
    for name in --lr --seed --tokens-per-sample --sample-break-mode --criterion --arch; do
        settings+=" $name $(value_of "$name")"
    done
    IFS=: read -ra parts <<<"$data"
    settings+=$'\n'"data: dict.txt $(cksum <"${parts[0]}/dict.txt")" # it may lie elsewhere, but has to be the same
    for part in "${parts[@]}"; do
        settings+=", $({ cat "$part"/train*.idx 2>/dev/null || true; } | cksum)"
    done
    if [[ -e $save/pretraining.txt && -e $save/checkpoint_last.pt ]]; then
        [[ $(<"$save/pretraining.txt") == "$settings" ]] ||
            fail "$save holds a pre-training of other settings or data: choose another SAVE, or remove $save/pretraining.txt to \
go on with these. There:"$'\n'"$(<"$save/pretraining.txt")"$'\n'"asked:"$'\n'"$settings"
    fi
    printf '%s\n' "$settings" >"$save/pretraining.txt.part" && mv "$save/pretraining.txt.part" "$save/pretraining.txt"
}

expanded_length() { # expanded_length TOKENS: their number when masked ones have k states
    local millionths
    millionths=$(LC_ALL=C printf '%.0f' "$(value_of --mask-prob)e6")
    printf '%d' "$(($1 + $1 * millionths * (k - 1) / 1000000))"
}

train() { # runs fairseq-train with flags and extra, or shows the command
    local command done most
    add_device_flags
    # fairseq saves and validates by updates, never by epochs; one checkpoint is enough to go on from.
    find_python
    command=(
        "$python" -m fairseq_cli.train "$data" --user-dir "$root/fs_plugins" --save-dir "$save"
        --no-epoch-checkpoints --keep-interval-updates 1 --save-interval 1000000 --validate-interval 1000000
        --log-format json "${flags[@]}" --distributed-world-size "$workers"
        ${distributed[@]+"${distributed[@]}"} ${extra[@]+"${extra[@]}"}
    )
    if [[ -n $show ]]; then
        printf '%q ' "${command[@]}"
        echo
    else
        claim_save
        # fairseq would train one update more
        if [[ -e $save/checkpoint_last.pt ]] && ! given --restore-file && ! given --reset-optimizer; then
            done=$("$python" "$root/scripts/trained_updates.py" "$save/checkpoint_last.pt")
            most=$(value_of --max-update)
            if ((most > 0 && done >= most)); then
                echo "finished before: $save/checkpoint_last.pt has had $done updates; more by --updates"
                exit 0
            fi
        fi
        exec "${command[@]}"
    fi
}
