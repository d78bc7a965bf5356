#!/usr/bin/env bash
# Runs the CUDA kernels of the DAG op without a GPU, as PTX in GPGPU-Sim, and prints one table:
#
#   bash scripts/gpu_simulate.sh [options] SIMULATOR
#
#   SIMULATOR       GPGPU-Sim 4.2 with CUDA 11.8's nvcc, as installed in GPUSIM_HOME: cuda/, ccbin/, lib/, gpgpu-sim/
#   --check, --time only one of the two parts
#   --graphs FILE   time these graphs too, as tests/cuda_simulation/dump_graphs.py writes them; may be repeated
#   --large         check larger sizes too, and time 77 targets and 316 nodes: hours instead of minutes
#   --only NAME     one row of the table; may be repeated
#   --sources DIR   kernels to run (default: fs_plugins/custom_ops/csrc)
#   --output DIR    where everything printed goes (default: runs/gpu_simulate)
#
# check: results against the CPU op's in float64, twice, with every access checked for bounds, alignment, initialisation
# and races. time: cycles of one sentence in GPGPU-Sim's timing model with an H100's sizes, and microseconds at 1,755 MHz.
# It executes PTX in program order, as no GPU does: good for comparing kernels, no measurement. Exit status 1 if a row failed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
here=$root/tests/cuda_simulation

fail() { printf 'error: %s\n' "$*" >&2 && exit 2; }
usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }

parts='check time' large='' only=() graphs=() simulator='' out=$root/runs/gpu_simulate csrc=$root/fs_plugins/custom_ops/csrc
while (($#)); do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --check | --time) parts=${1#--} ;;
    --large) large=yes ;;
    --graphs | --only | --sources | --output)
        (($# > 1)) || fail "$1 needs a value; see --help"
        case $1 in
        --graphs) graphs+=("$(realpath "$2")") ;;
        --only) only+=("$2") ;;
        --sources) csrc=$(realpath "$2") ;;
        --output) out=$(realpath -m "$2") ;;
        esac
        shift
        ;;
    -*) fail "'$1' is no option; see --help" ;;
    *) [[ -z $simulator ]] && simulator=$(realpath "$1") || fail "one SIMULATOR; see --help" ;;
    esac
    shift
done
[[ -n $simulator ]] || fail "give SIMULATOR, the folder of the installed simulator; see --help"
[[ -f $simulator/gpgpu-sim/setup_environment && -x $simulator/cuda/bin/nvcc && -d $simulator/lib ]] ||
    fail "$simulator holds no installed simulator: gpgpu-sim/, cuda/ and lib/ are wanted"
[[ -f $csrc/dag_cuda.cu ]] || fail "--sources $csrc: there is no dag_cuda.cu"
for graph in ${graphs[@]+"${graphs[@]}"}; do [[ -f $graph ]] || fail "--graphs $graph: no such file"; done

rows() { # part, name, configuration, arguments of the driver
    local type
    for type in float double; do
        echo "check tiny-$type h100 -t $type -b 4 -m 4 -l 8 -v 1 -r 2"
        echo "check nan-$type h100 -t $type -b 4 -m 9 -l 33 -v 2"
        echo "check slices-$type h100 -t $type -b 2 -m 12 -l 70 -v 1 -r 2"
        echo "check any-$type any -t $type -b 4 -m 9 -l 33 -v 1 -r 2"
    done
    echo "check shared-out-float h100 -b 1 -m 6 -l 130"
    echo "check wide-float h100 -b 1 -m 21 -l 84 -s 200"
    echo "check wide-double h100 -t double -b 1 -m 9 -l 84 -s 2000"
    echo "check any-wide-float any -b 1 -m 9 -l 84 -s 200"
    if [[ -n $large ]]; then
        echo "check usual-float h100 -b 4 -m 21 -l 84 -v 1 -r 2"
        echo "check most-float h100 -b 1 -m 6 -l 352"
        echo "check long-float h100 -b 1 -m 77 -l 316 -v 3 -p fb"
        echo "check most-double h100 -t double -b 1 -m 6 -l 192"
        echo "check any-large-float any -b 2 -m 12 -l 400 -v 1"
    fi
    echo "time early-84 time -b 1 -m 21 -l 84 -v 3 -s 0.4 -p fb"
    echo "time late-84 time -b 1 -m 21 -l 84 -v 4 -s 4 -p fb"
    [[ -z $large ]] || echo "time early-316 time -b 1 -m 77 -l 316 -v 3 -s 0.4 -p fb"
    local graph name
    for graph in ${graphs[@]+"${graphs[@]}"}; do
        name=$(basename "$graph")
        echo "time ${name%.*} time -p fb -f $graph"
    done
}

# setup_environment is not made for set -eu.
environment() {
    export CUDA_INSTALL_PATH=$simulator/cuda PATH=$simulator/ccbin:$PATH
    set +eu
    # shellcheck disable=SC1091
    source "$simulator/gpgpu-sim/setup_environment" release >/dev/null 2>&1
    set -eu
    unset PTX_SIM_USE_PTX_FILE
    export LD_LIBRARY_PATH=$simulator/lib:$LD_LIBRARY_PATH
}

build() {
    local nvcc=("$CUDA_INSTALL_PATH/bin/nvcc" -ccbin g++-11 -O3 -std=c++17 --cudart=shared -cudadevrt none)
    # The CPU op in a library of its own, as both define some functions.
    g++-11 -O3 -std=c++17 -fPIC -shared -I"$csrc" "$csrc/dag_cpu.cpp" -Wl,-soname,libdag_cpu.so -o "$out/libdag_cpu.so" -pthread
    "${nvcc[@]}" -gencode arch=compute_70,code=compute_70 -I"$csrc" "$here/driver.cu" "$csrc/dag_cuda.cu" "$out/libdag_cpu.so" \
        -Xlinker -rpath="$out" -ldl -o "$out/driver"
}

run() { # run NAME CONFIGURATION ARGUMENTS: in a folder of its own; prints the row's results
    local name=$1 configuration=check_$2 folder=$out/$1 checked=1 rc=0
    [[ $2 != time ]] || configuration=time_h100 checked=''
    shift 2
    rm -rf "$folder" && mkdir -p "$folder"
    awk '$1 in seen { next } $1 ~ /^-/ { seen[$1] } { print }' "$here/$configuration.config" \
        "$simulator/gpgpu-sim/configs/tested-cfgs/SM7_QV100/gpgpusim.config" >"$folder/gpgpusim.config"
    (cd "$folder" && { [[ -z $checked ]] || export GPUSIM_CHECK=1; } && "$out/driver" "$@" >out.txt 2>&1) || rc=$?
    awk -v rc="$rc" -v name="$name" -v checked="$checked" '
        /^DRIVER log_prob/ { split($4, kv, "="); if (kv[2] + 0 > log_prob) log_prob = kv[2] + 0 }
        /^DRIVER grad_/ { split($3, kv, "="); if (kv[2] + 0 > gradient) gradient = kv[2] + 0 }
        /^DRIVER/ && $NF == "BAD" { wrong = wrong " " $2 }
        /^DRIVER DONE/ { done = 1 }
        /^CHECK summary/ { summary = 1; sub(/.*out of bounds/, "out of bounds"); gsub(/races: between/, "races between"); gsub(/in a warp/, "races in a warp"); gsub(/, between blocks/, ", races between blocks"); gsub(/, /, "\n"); found = $0
                           while (match(found, /[^\n]* [1-9][0-9]*/)) { wrong = wrong " [" substr(found, RSTART, RLENGTH) "]"; found = substr(found, RSTART + RLENGTH) } }
        /^CHECK (shfl|vote)/ { wrong = wrong " [" $2 " without all lanes]" }
        /^kernel_name = / { kernel = $3; sub(/^_ZN4exlm[0-9]+/, "", kernel); sub(/I[fd].*/, "", kernel) }
        /^gpu_sim_cycle = / { cycles = $3 }
        /^gpu_ipc =/ { times = times sprintf("  %s %d (%.1f us)", kernel, cycles, cycles / 1755) }
        END {
            if (!done || (checked && !summary)) wrong = wrong " did not finish"
            if (wrong == "" && rc != 0) wrong = " exit status " rc
            printf "%-22s %-6s %9.2g %9.2g %s%s\n", name, wrong == "" ? "ok" : "FAILED", log_prob, gradient, times, wrong
            exit wrong != ""
        }' "$folder/out.txt"
}

mkdir -p "$out"
environment
build
failed=0
printf '%-22s %-6s %9s %9s %s\n' row result log_prob gradient 'cycles, or what is wrong'
while read -r part name configuration arguments; do
    [[ " $parts " == *" $part "* ]] || continue
    [[ ${#only[@]} == 0 || " ${only[*]} " == *" $name "* ]] || continue
    read -ra arguments <<<"$arguments"
    run "$name" "$configuration" "${arguments[@]}" || failed=$((failed + 1))
done < <(rows)
((failed == 0)) || { echo "$failed rows failed: see out.txt in the folders of $out" >&2 && exit 1; }
