# shellcheck shell=bash
# What the scripts that call fairseq-train share; to be sourced.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034
configs=$root/configs

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 2
}

one_of() { # one_of WHAT VALUE FOLDER: the file FOLDER/VALUE.flags has to be there
    local known=("$3"/*.flags)
    known=("${known[@]##*/}")
    [[ $2 =~ ^[a-z0-9-]+$ && -e $3/$2.flags ]] || fail "unknown $1 '$2': there are ${known[*]%.flags}"
}

find_python() { # sets python: EXLM_PYTHON, else .venv's, else python3
    python=${EXLM_PYTHON:-}
    [[ -n $python || ! -x $root/.venv/bin/python ]] || python=$root/.venv/bin/python
    python=${python:-python3}
}

count_gpus() { # sets gpus, unless --gpus or --cpu did: those that are visible
    local devices
    [[ -z $gpus || $gpus =~ ^[0-9]+$ ]] || fail "--gpus '$gpus': give a whole number"
    if [[ -z $gpus && -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
        IFS=, read -ra devices <<<"$CUDA_VISIBLE_DEVICES"
        gpus=0
        while ((gpus < ${#devices[@]})) && [[ ${devices[gpus]} != -* ]]; do # as CUDA reads it: up to the first -1
            gpus=$((gpus + 1))
        done
    elif [[ -z $gpus ]]; then
        gpus=$({ nvidia-smi -L 2>/dev/null || true; } | grep -c '^GPU' || true)
    fi
}

refuse_own_flag() { # refuse_own_flag FLAG: of fairseq-train's, which the fine-tuning scripts set themselves
    case ${1%%=*} in
    --seed | --save-dir | --restore-file | --finetune-from-model) fail "${1%%=*} is set by this script; see --help" ;;
    esac
}

hold_folder() { # hold_folder FOLDER OPTION: makes it, and holds it until this process ends, or what it becomes
    local status=0
    mkdir -p "$1" 2>/dev/null && [[ -w $1 ]] || fail "$1 cannot be made, or not be written to: choose another $2"
    command -v flock >/dev/null || return 0
    exec 9>"$1/lock"
    flock -w 10 9 || status=$? # the data loaders of a run that was killed hold it for some seconds
    ((status != 1)) || fail "another run is at work in $1: wait for it, or end it"
    ((status == 0)) || printf 'warning: %s is on a drive that has no locks: see that no other run uses it\n' "$1" >&2
}

holds_files() { # holds_files FOLDER PATTERN: whatever the folder is called
    (cd -- "$1" >/dev/null 2>&1 && compgen -G "$2" >/dev/null)
}

claim_folder() { # claim_folder FOLDER INPUTS WORD...: makes it and holds it for this run; refuses one of another command or INPUTS
    local settings='' word i words=("${@:3}")
    for ((i = 0; i < ${#words[@]}; i++)); do
        if [[ ${words[i]} == --save-dir ]]; then
            i=$((i + 1)) # the folder's own name depends on where the script is called
        else
            printf -v word '%q ' "${words[i]}"
            settings+=$word
        fi
    done
    settings+=$'\n'$2
    hold_folder "$1" SAVE
    if holds_files "$1" '*.pt' || holds_files "$1" '*.json'; then # a run that failed at once binds nobody
        # (earlier versions wrote --save-dir down)
        [[ ! -e $1/command.txt || $(sed 's| --save-dir [^ ]* | |' "$1/command.txt") == "$settings" ]] ||
            fail "$1 holds a run of other settings, data or weights (command.txt): choose another SAVE, or remove that folder"
        [[ -e $1/command.txt || -e $1/train.log ]] || fail "$1 holds checkpoints of another run: choose another SAVE"
    fi
    printf '%s\n' "$settings" >"$1/command.txt.part" && mv "$1/command.txt.part" "$1/command.txt"
}

flags=()

add_device_flags() { # the precision on GPUs, or what the CPU needs, by gpus
    if ((gpus == 0)); then
        flags+=(--cpu --num-workers 0)
    else
        flags+=(--fp16 --fp16-scale-tolerance 0.1 --fp16-scale-window 50)
    fi
}

add_flags() { # adds the words of a flag file to flags, without comments
    local line words
    while IFS= read -r line || [[ -n $line ]]; do
        read -ra words <<<"${line%%#*}"
        flags+=(${words[@]+"${words[@]}"})
    done <"$1"
}

value_of() { # value_of FLAG: its last value in flags and extra, which holds what the user gave for fairseq-train
    local i value='' words=(${flags[@]+"${flags[@]}"} ${extra[@]+"${extra[@]}"})
    for ((i = 0; i < ${#words[@]}; i++)); do
        case ${words[i]} in
        "$1") value=${words[i + 1]:-} ;;
        "$1="*) value=${words[i]#*=} ;;
        esac
    done
    printf '%s' "$value"
}

given() { # given FLAG: whether it is in extra
    local word
    for word in ${extra[@]+"${extra[@]}"}; do
        [[ ${word%%=*} != "$1" ]] || return 0
    done
    return 1
}

take_out() { # take_out FLAG: of extra, with its value
    local i kept=()
    for ((i = 0; i < ${#extra[@]}; i++)); do
        case ${extra[i]} in
        "$1") i=$((i + 1)) ;;
        "$1="*) ;;
        *) kept+=("${extra[i]}") ;;
        esac
    done
    extra=(${kept[@]+"${kept[@]}"})
}

steps_of_batch() { # steps_of_batch BATCH: --update-freq, over which an update of BATCH samples can be split
    local steps
    steps=$(value_of --update-freq)
    steps=${steps:-1}
    [[ $steps =~ ^[1-9][0-9]*$ ]] && (($1 % steps == 0)) ||
        fail "--update-freq $steps: the batch of $1 is that of an update, and cannot be split over so many steps"
    printf '%d' "$steps"
}

# the plugin and the recipes beside this script, whatever else is installed
export PYTHONPATH=$root:$root/scripts${PYTHONPATH:+:$PYTHONPATH}
