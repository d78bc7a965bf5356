#!/usr/bin/env bash
# Checks this clone on one GPU, in ten minutes and without network: builds the op in place if it was not built, tests it,
# compares the losses of exlm_base and roberta_base with the CPU's, and times their training. A part that fails or exceeds its
# limit of time doesn't stop the others. What they print is in OUT too; the exit status is 1 if a part failed.
#
#   bash scripts/benchmarks/gpu_check.sh [OUT]      OUT: a folder (default: runs/gpu_check)
#
# Environment variables: EXLM_PYTHON, a Python with PyTorch for CUDA and pytest (default: .venv's, else python3); for the
# build, CUDA_HOME, TORCH_CUDA_ARCH_LIST (9.0 for an H100 builds faster than the default) and the others in setup.py.
if [[ $# -gt 1 || ${1:-} == -* ]]; then
    sed -n '2,/^if/{/^#/s/^# \{0,1\}//p}' "$0"
    exit 2
fi
out=$(realpath -m "${1:-runs/gpu_check}")
for name in EXLM_VENV EXLM_PYTHON; do # may be relative
    [[ ${!name:-/} == /* || ${!name} != */* ]] || export "$name=$PWD/${!name}"
done
CDPATH="" cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/environment.sh
source scripts/environment.sh
mkdir -p "$out" || exit 2
bench="'$python' scripts/benchmarks/bench_step.py"
failed=()

part() { # part NAME SECONDS COMMAND
    local limit=$((590 - SECONDS < $2 ? 590 - SECONDS : $2))
    printf '\n==== %s (at most %s s)\n' "$1" "$limit"
    ((limit > 0)) && timeout -k 5 "$limit" bash -o pipefail -c "$3" 2>&1 </dev/null | tee "$out/$1.log"
    [[ ${PIPESTATUS[0]} == 0 ]] || failed+=("$1")
}

losses() { # losses DEVICE: the command that prints both models' losses, in float32
    echo "$bench --device $1 --batch-size 4 --repeats 1 | awk -F'|' '/_base/ {print \$2, \$3}'"
}

part machine 60 "'$python' -c 'import torch; print(torch.zeros(1, device=\"cuda\").device, torch.cuda.get_device_name())'"
part build 150 "[[ -e fs_plugins/custom_ops/libexlm_dag_cuda.so ]] || EXLM_REQUIRE_OP=1 '$python' setup.py build_op --build-lib ."
part losses 120 "paste -d ' ' <($(losses cpu)) <($(losses cuda)) | tee /dev/stderr |
    awk 'function abs(x) {return x < 0 ? -x : x} abs(\$2 - \$4) < 1e-3 * \$2 {equal++} END {exit equal != 2}'"
part tests 120 "'$python' -m pytest -q -rs -p no:cacheprovider tests/custom_ops tests/speed -k 'cuda and not emulated'"
for optimizer in fused_adamw adam; do
    for precision in bf16 fp16; do
        for freq in 1 8; do
            part "step-$precision-$optimizer-$freq" 60 "$bench --device cuda --batch-size 64 --precision $precision \
                --optimizer $optimizer --update-freq $freq --repeats 9"
        done
    done
done

printf '\n%s: %s\n' "$out" "${failed[*]:-all parts passed}"
grep -h '^|' "$out"/step-*.log
[[ ${#failed[@]} == 0 ]]
