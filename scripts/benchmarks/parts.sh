# shellcheck shell=bash
# Parts of a check on a borrowed machine; to be sourced. Each has a time of its own, and all together have LIMIT seconds:
# what ends the check early, a signal too, leaves the results so far. What parts say is in OUT/PART.log; lines that
# begin with | become lines of OUT/table.md as they come.
#
# Environment: OUT (default: runs/NAME_OF_THE_SCRIPT), LIMIT (default: 590), PARTS (names of parts; default: all).
set -um # a process group for each part
out=${OUT:-runs/$(basename "$0" .sh)}
mkdir -p "$out" || exit 2
: >"$out/table.md"
deadline=$((SECONDS + ${LIMIT:-590})) results='' failed=0 running=''
trap 'finish' EXIT
trap 'exit 143' TERM INT HUP

part() { # part NAME SECONDS COMMAND...
    local name=$1 end=$((SECONDS + $2)) begun=$SECONDS seen=0 state
    shift 2
    [[ -z ${PARTS:-} || " $PARTS " == *" $name "* ]] || return 0
    ((SECONDS + 1 < deadline)) || { tell "$name: NOT RUN, the time is over" && return; }
    ((end < deadline)) || end=$deadline
    printf '\n==== %s (%s s at most): %s\n' "$name" $((end - SECONDS)) "$*"
    "$@" >"$out/$name.log" 2>&1 </dev/null &
    running=$! label=$name since=$begun
    while kill -0 "$running" 2>/dev/null && ((SECONDS < end)); do
        sleep 0.5
        rows
    done
    if kill -0 "$running" 2>/dev/null; then stop; state="CUT OFF after"; elif wait "$running"; then state="passed in"; else state="FAILED after"; fi
    running=''
    rows
    tail -n 5 "$out/$name.log" | cut -c 1-300
    tell "$name: $state $((SECONDS - begun)) s$(troubles "$out/$name.log")"
}

rows() { # the new rows of the part that runs
    local new
    new=$(grep '^|' "$out/$label.log" | tail -n +$((seen + 1)))
    [[ -z $new ]] || { printf '%s\n' "$new" | tee -a "$out/table.md" && seen=$((seen + $(wc -l <<<"$new"))); }
}

troubles() { # what PyTorch's compiler said in a log (TORCH_LOGS=perf_hints,recompiles,graph_breaks)
    local what count
    for what in "skipping cudagraphs" "Recompiling function" "Graph break"; do
        count=$(grep -c "$what" "$1")
        [[ $count == 0 ]] || printf ', %s x "%s"' "$count" "$what"
    done
}

tell() { # tell RESULT: of a part; in capitals what did not pass
    [[ $1 != *[A-Z][A-Z][A-Z]* ]] || failed=1
    results+="$1"$'\n'
}

stop() { # ends the part that runs, and its processes
    kill -TERM -- "-$running" 2>/dev/null
    for _ in 1 2 3 4 5 6; do kill -0 -- "-$running" 2>/dev/null && sleep 0.5; done
    kill -KILL -- "-$running" 2>/dev/null
    wait "$running" 2>/dev/null
}

finish() {
    trap '' TERM INT HUP
    trap - EXIT
    if [[ -n $running ]]; then
        stop
        rows
        tell "$label: CUT OFF after $((SECONDS - since)) s, and whatever comes after it"
    fi
    printf '\n%s, logs in %s\n%s\n' "$(date +%Y-%m-%d)" "$out" "$results" | tee "$out/results.txt"
    cat "$out/table.md"
    exit "$failed"
}
