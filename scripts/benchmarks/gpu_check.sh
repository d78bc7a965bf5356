#!/usr/bin/env bash
# Everything that needs a GPU, in one go and without network: builds the op in place, tests it on the GPU, also under
# compute-sanitizer, runs the benchmarks and, with DATA, trains ExLM and the MLM for 200 updates in each precision and
# mode; prints the results at the end. A part that fails does not stop the others; the exit status is 1 if any failed.
# For a table of steps alone, in five minutes at most:  PARTS="step_eager step_compile step_cuda-graph"
#
#   bash scripts/benchmarks/gpu_check.sh [DATA]     DATA: text, made by prepare_text.py or fairseq-preprocess --only-source
#
# Environment variables:
#   EXLM_PYTHON  a Python with PyTorch for CUDA and pytest (default: .venv's, else python3)
#   OUT          folder for the logs (default: runs/gpu_check)
#   PARTS        names of parts to run, separated by blanks (default: all)
#   TRAIN_FLAGS  of both models, in all trainings, such as "--optimizer fused_adamw" or "--update-freq 8"
#   MODES        of steps and trainings (default: eager compile cuda-graph)
#   PRECISIONS   of trainings (default: fp16 bf16)
#   STEP_FLAGS   of bench_step.py (default: a GPU, bfloat16, 64 sentences)
# For the build: CUDA_HOME, TORCH_CUDA_ARCH_LIST and the others in setup.py.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/environment.sh
source scripts/environment.sh

if [[ $# -gt 1 || ${1:-} == -* ]]; then
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
    exit 2
fi
out=${OUT:-runs/gpu_check}
mkdir -p "$out" || exit 2
results='' failed=0

part() { # part NAME COMMAND...: shows the end of what it says; all of it is in OUT/NAME.log
    [[ -z ${PARTS:-} || " $PARTS " == *" $1 "* ]] || return
    printf '\n==== %s: %s\n' "$1" "${*:2}"
    "${@:2}" 2>&1 | tee "$out/$1.log" | tail -n 40
    if [[ ${PIPESTATUS[0]} == 0 ]]; then results+="$1: passed"; else results+="$1: FAILED, see $out/$1.log" failed=1; fi
    results+=$'\n'
}

build() {
    # By setup.py's own functions, in place; without its metadata, which older versions of setuptools cannot read.
    "$python" - <<'PYTHON'
import runpy

import setuptools

setuptools.setup = lambda **_: None
build = runpy.run_path("setup.py")
sources = build["load_sources"]()
for kind in sources.SOURCES:
    if kind == "cuda" and build["find_nvcc"]() is None:
        print("no nvcc in CUDA_HOME or on the PATH: the library that is there has to serve")
    else:
        files = sources.source_path(kind), sources.library_path(kind), sources.source_hash(kind)
        build["compile_library"](kind, *files)

from fs_plugins.custom_ops import library  # noqa: E402

for kind in sources.SOURCES:
    assert library.load(kind) is not None, f"there is no {kind} library"
PYTHON
}

tests() { # tests [pytest's arguments]; the tool in $sanitizer, if any, watches
    ${sanitizer:+"${sanitizer[@]}"} "$python" -c '
import sys, torch
torch.zeros(1, device="cuda")  # an error where there is no GPU, or a tool keeps it away: all tests would be skipped
import pytest
sys.exit(pytest.main(sys.argv[1:]))' -q -rs -p no:cacheprovider \
        -o "pythonpath=$root $root/tests $root/scripts $root/scripts/benchmarks" "$@"
}

sanitizer() { # sanitizer TOOL
    local chosen="equals_enumeration or peaked or vanishing or infeasible or padding"
    chosen+=" or (equals_the_cpu_op and (5-31 or 21-84 or 77-316 or 9-700))"
    # Our kernels only: PyTorch's own would take hours, and its probing calls are no errors of ours. Without PyTorch's
    # memory pool, which would hide what lies just beyond a tensor.
    local sanitizer=(env PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool "$1" --kernel-name kns=exlm
        --report-api-errors no --error-exitcode 9)
    tests -x tests/custom_ops/test_dag_loss.py tests/custom_ops/test_dag_cuda.py \
        -k "cuda and not reference and ($chosen)"
}

train() { # train DATA
    local precision mode model folder
    for precision in ${PRECISIONS:-fp16 bf16}; do
        for mode in $modes; do
            for model in mlm exlm; do
                folder=$out/$model-$precision-$mode
                [[ ! -e $folder/manifest.json ]] || rm -rf "${folder:?}" # of an earlier check
                # shellcheck disable=SC2046,SC2086
                bash scripts/pretrain_text.sh "$model" paper "$1" "$folder" --gpus 1 "--$precision" \
                    --updates 200 --batch-size 64 --tokens-per-sample 128 --log-interval 10 --num-workers 4 \
                    --disable-validation --no-save $(flag "$mode") ${TRAIN_FLAGS:-} || return
                echo "$folder: $(grep -o '{.*"ups".*}' "$folder/train.log" | tail -n 1)"
            done
        done
    done
    ! grep -E '"nonfinite": "[1-9]' "$out"/exlm-*/train.log
}

flag() { # flag MODE: of fairseq-train
    [[ $1 == eager ]] || echo "--$1"
}

modes=${MODES:-eager compile cuda-graph}
read -ra step <<<"${STEP_FLAGS:---device cuda --dtype bfloat16 --batch-size 64}"
step=("$python" scripts/benchmarks/bench_step.py "${step[@]}")
part machine "$python" -m torch.utils.collect_env
part build build
part tests tests tests/custom_ops -k "cuda and not emulated"
for tool in memcheck racecheck synccheck; do
    part "$tool" sanitizer "$tool"
done
part bench "$python" scripts/benchmarks/bench_dag_loss.py --device cuda
for mode in $modes; do
    # With fairseq's own model beside each; a mode that compiles too long keeps the others' rows.
    part "step_$mode" timeout 100 "${step[@]}" --repeats 12 --modes "$mode" --arch exlm_base p_roberta_base
    part "lattice_$mode" timeout 100 "${step[@]}" --repeats 12 --modes "$mode" --state-graph lattice --expand-from-layer -1
done
[[ -z ${1:-} ]] || part train train "$1"
printf '\n%s, logs in %s\n%s' "$(date +%Y-%m-%d)" "$out" "$results"
exit "$failed"
