#!/usr/bin/env bash
# Everything that needs a GPU, in ten minutes and without network, what is wanted most first: builds the op in place;
# times steps; with DATA trains 60 updates of ExLM and the MLM by fairseq-train, and compares losses at update 50 between
# modes; tests the op, times it, and runs it under compute-sanitizer. Each part has a time limit, and one that fails
# doesn't stop the others; whatever ends the check, it prints which parts passed, and the table that is in OUT/table.md.
# The exit status is 1 if a part failed or was cut off. A library that was built before is used as it is: to build it on
# a machine with nvcc and no GPU, set TORCH_CUDA_ARCH_LIST (9.0 for an H100) and PARTS=build.
#
#   bash scripts/benchmarks/gpu_check.sh [DATA]     DATA: text, made by prepare_text.py or fairseq-preprocess --only-source
#
# Environment variables, besides those of parts.sh (OUT, LIMIT, PARTS):
#   EXLM_PYTHON  a Python with PyTorch for CUDA and pytest (default: .venv's, else python3)
#   TRAININGS    model:precision:optimizer:update-freq of each
#   TRAIN_FLAGS  of all trainings (default: a GPU, 64 x 128 tokens, no dropout, so that losses can be compared)
#   STEP_FLAGS   of bench_step.py (default: a GPU, bfloat16, 64 sentences)
#   STEP_LIMIT, TRAIN_LIMIT  seconds of a part (default: 120 and 75)
# For the build: CUDA_HOME, TORCH_CUDA_ARCH_LIST and the others in setup.py.
if [[ $# -gt 1 || ${1:-} == -* ]]; then
    sed -n '2,/^if/{/^#/s/^# \{0,1\}//p}' "$0"
    exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/environment.sh
source scripts/environment.sh
# shellcheck source=scripts/benchmarks/parts.sh
source scripts/benchmarks/parts.sh

load() { # in a process of its own: one that has loaded an older library keeps that
    "$python" -c '
from fs_plugins.custom_ops import library
for kind in ("cpu", "cuda"):
    assert library.load(kind) is not None, f"there is no {kind} library"'
}

build() {
    load && return
    # By setup.py's own functions, in place; without its metadata, which older versions of setuptools cannot read.
    "$python" - <<'PYTHON' && load
import runpy

import setuptools

setuptools.setup = lambda **_: None
build = runpy.run_path("setup.py")
for kind, source in build["SOURCES"].items():
    if kind == "cpu" or build["find_nvcc"]() is not None:
        folder = build["ROOT"] / build["OP_FOLDER"]
        target = folder / f"libexlm_dag_{kind}{build['SUFFIX']}"
        build["compile_library"](kind, folder / "csrc" / source, target)
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

train() { # train DATA MODEL PRECISION OPTIMIZER UPDATE_FREQ
    local folder=$out/$2-$3-$4-$5 flags
    rm -rf "${folder:?}" # of an earlier check
    read -ra flags <<<"${TRAIN_FLAGS:---gpus 1 --batch-size 64 --tokens-per-sample 128 --num-workers 4 --dropout 0 --attention-dropout 0}"
    bash scripts/pretrain_text.sh "$2" paper "$1" "$folder" "--$3" --optimizer "$4" --update-freq "$5" --updates 60 \
        --log-interval 10 --disable-validation --no-save "${flags[@]}" || return
    echo "| $2, $3, $4, $5 x 64 | updates/s: $(logged "$folder" 60 ups) | loss at update 50: $(logged "$folder" 50 loss) |"
    ! grep -E '"nonfinite": "[1-9]' "$folder/train.log"
}

logged() { # logged FOLDER UPDATE FIGURE: of a training
    grep "\"num_updates\": \"$2\"" "$1/train.log" | grep -o "\"$3\": \"[^\"]*\"" | tail -n 1 | cut -d '"' -f 4
}

step() { # step [FLAGS...]
    local flags
    read -ra flags <<<"${STEP_FLAGS:---device cuda --dtype bfloat16 --batch-size 64 --repeats 12}"
    "$python" scripts/benchmarks/bench_step.py --arch exlm_base "$@" "${flags[@]}"
}

trainings=(exlm:bf16:fused_adamw:{1,8} {exlm,mlm}:bf16:adam:1 exlm:fp16:fused_adamw:1)
[[ -z ${TRAININGS:-} ]] || read -ra trainings <<<"$TRAININGS"
part build 120 build
part step "${STEP_LIMIT:-120}" step --optimizers adam fused_adamw
for training in "${trainings[@]}"; do
    [[ -n ${1:-} ]] || break
    IFS=: read -ra words <<<"$training"
    part "train_$training" "${TRAIN_LIMIT:-75}" train "$1" "${words[@]}"
done
part tests 120 tests tests/custom_ops -k "cuda and not emulated"
part bench 60 "$python" scripts/benchmarks/bench_dag_loss.py --device cuda
for tool in memcheck racecheck synccheck; do
    part "$tool" 120 sanitizer "$tool"
done
part machine 60 "$python" -m torch.utils.collect_env
