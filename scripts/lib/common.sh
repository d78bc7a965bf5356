# shellcheck shell=bash
# What the scripts that train share; to be sourced.
#
#   settle MODULE ARGUMENT...   sets data, save, flags and evaluation to what was asked for, and holds the folder
#   run COMMAND...              runs a command of a training, or shows it (--print)
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/../environment.sh"

# MODULE prints variables of bash (lib/run/launch.py), or its help, which ends the script.
settle() {
    local plan said
    plan=$("$python" -m "$@") || exit
    [[ " $* " != *" --help "* && " $* " != *" -h "* ]] || { echo "$plan" && exit; }
    [[ $plan == save=* ]] || { echo "$plan" >&2 && exit 2; }
    eval "$plan"
    [[ -z $note ]] || echo "$note"
    [[ -z $print ]] || return 0
    [[ -n $first || ! -e $save/result.json ]] || exit 0 # finished before, as the first says
    [[ -n $first ]] || return 0
    mkdir -p "$save" && exec 9>>"$save/lock" || exit 2 # held by all that is started from here
    said=$("$python" -m lib.run.folder "$save" <<<"$record") || exit
    [[ -z $said ]] || { echo "$said" && exit; } # finished before
    exec > >(tee -ia "$save/train.log") 2>&1
}

# In a process group of its own, to be ended as a whole. A limit of time leaves a training unfinished.
run() {
    [[ -z $print ]] || { printf '%q ' "$@" && echo && return; }
    local program=("$@") child
    [[ $1 != fairseq-train ]] || program=("$python" -m fairseq_cli.train "${@:2}")
    set -m
    "${program[@]}" &
    child=$!
    set +m
    trap 'kill -- -$child || :; wait $child || :; echo "interrupted: rerun the same command" >&2; exit 130' INT TERM HUP
    wait $child || exit
    trap - INT TERM HUP
    [[ ! -e $save/unfinished ]] || { echo "--stop-time-hours ended this call: rerun the same command to resume" && exit 75; }
}

# Scores checkpoint_best.pt, after which nothing is resumed.
evaluate() {
    [[ -n $first ]] || return 0
    run "$python" "$root/scripts/evaluate.py" "$save/checkpoint_best.pt" "$data" --output "$save" \
        ${evaluation[@]+"${evaluation[@]}"} # bash before 4.4 takes an empty array for an unset one
    [[ -n $print ]] || (cd "$save" && rm -f "${drop[@]}")
}
