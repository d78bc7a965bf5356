#!/usr/bin/env bash
# Everything that needs a GPU, in one go and without network: builds the op in place, runs its tests on the GPU, the same
# under compute-sanitizer, and the benchmarks; prints one table at the end. A part that fails does not stop the others;
# the exit status is 1 if any failed.
#
#   bash scripts/benchmarks/gpu_check.sh            # the op
#   bash scripts/benchmarks/gpu_check.sh DATA       # and training, by scripts/benchmarks/gpu_train_check.sh, on DATA (binarised text)
#
# Environment variables:
#   PYTHON  a Python with PyTorch for CUDA and pytest (default: .venv/bin/python if it is there, else python3)
#   OUT     folder for the logs (default: runs/gpu_check)
#   PARTS   names of parts to run, separated by blanks (default: all)
# For the build: CUDA_HOME, TORCH_CUDA_ARCH_LIST and the others in setup.py.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
root=$PWD

if [[ $# -gt 1 || ${1:-} == -* ]]; then
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
    [[ ${1:-} == -h || ${1:-} == --help ]]
    exit
fi
data=${1:-}
if [[ -n $data && ! -f $data/dict.txt ]]; then
    echo "error: $data is no folder of binarised text: there is no $data/dict.txt" >&2
    exit 2
fi

python=${PYTHON:-}
if [[ -z $python ]]; then
    python=python3
    [[ -x .venv/bin/python ]] && python=$root/.venv/bin/python
fi
command -v "$python" >/dev/null || {
    echo "error: there is no command '$python'; set PYTHON to a Python that has PyTorch" >&2
    exit 2
}
out=${OUT:-$root/runs/gpu_check}
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)

export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
paths="$root $root/tests $root/scripts $root/scripts/benchmarks"

# ---- Parts: each writes its log and a line of the table.

names=()
verdicts=()
failed=0

record() { # record NAME VERDICT
    names+=("$1")
    verdicts+=("$2")
    printf '    %s\n' "$2"
}

wanted() { # wanted NAME
    [[ -z ${PARTS:-} || " $PARTS " == *" $1 "* ]]
}

part() { # part NAME COMMAND...
    local name=$1 start=$SECONDS status
    shift
    wanted "$name" || return 0
    printf '\n==== %s: %s\n' "$name" "$*"
    "$@" 2>&1 | tee "$out/$name.log" | tail -n 40
    status=${PIPESTATUS[0]}
    if [[ $status -eq 0 ]]; then
        record "$name" "passed, $((SECONDS - start)) s"
    else
        failed=1
        record "$name" "FAILED (exit status $status), $((SECONDS - start)) s: $out/$name.log"
    fi
    return "$status"
}

skip() { # skip NAME REASON
    wanted "$1" || return 0
    printf '\n==== %s\n' "$1"
    record "$1" "skipped: $2"
}

tests() { # tests [pytest's arguments]
    "$python" -c 'import torch; assert torch.cuda.is_available(), "no CUDA device: all tests would be skipped"' || return
    "$python" -m pytest -q -p no:cacheprovider -o "pythonpath=$paths" -rs "$@"
}

machine() {
    nvidia-smi || echo "no nvidia-smi"
    "$python" -c '
import sys, torch
assert torch.cuda.is_available(), "torch.cuda.is_available() is False"
p = torch.cuda.get_device_properties(0)
print(f"{p.name}: sm_{p.major}{p.minor}, {p.multi_processor_count} multiprocessors")
print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, Python {sys.version.split()[0]}")'
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
    target = sources.library_path(kind)
    if kind == "cuda" and build["find_nvcc"]() is None:
        print("no nvcc in CUDA_HOME or on the PATH: the library that is there has to serve")
        continue
    build["compile_library"](kind, sources.source_path(kind), target, sources.source_hash(kind))

from fs_plugins.custom_ops import library  # noqa: E402

for kind in sources.SOURCES:
    assert library.load(kind) is not None, f"there is no {kind} library"
print("built from sources", sources.source_hash("cpu"), sources.source_hash("cuda"))
PYTHON
}

sanitizer() { # sanitizer TOOL
    local chosen="equals_enumeration or peaked or vanishing or infeasible or padding"
    chosen+=" or (equals_the_cpu_op and (5-31 or 21-84 or 77-316 or 9-700))"
    # Our kernels only: PyTorch's own would take hours, and its probing calls are no errors of ours. Without PyTorch's
    # memory pool, which would hide what lies just beyond a tensor.
    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool "$1" --kernel-name kns=exlm --report-api-errors no \
        --error-exitcode 9 "$python" -c '
import sys, torch
torch.zeros(1, device="cuda")  # an error where the tool keeps CUDA away, and all tests would be skipped
import pytest
sys.exit(pytest.main(sys.argv[1:]))' -q -x -p no:cacheprovider -o "pythonpath=$paths" \
        tests/custom_ops/test_dag_loss.py tests/custom_ops/test_dag_cuda.py \
        -k "cuda and not reference and ($chosen)"
}

part machine machine
gpu=$?
part build build
built=$?

if wanted build && [[ $built -ne 0 ]]; then
    without="the op was not built"
elif wanted machine && [[ $gpu -ne 0 ]]; then
    without="no GPU was found"
else
    without=
fi

if [[ -n $without ]]; then
    for name in tests memcheck racecheck synccheck bench bench_step bench_compiled; do
        skip "$name" "$without"
    done
else
    part tests tests tests/custom_ops -k "cuda and not emulated"
    if command -v compute-sanitizer >/dev/null; then
        part memcheck sanitizer memcheck
        part racecheck sanitizer racecheck
        part synccheck sanitizer synccheck
    else
        for name in memcheck racecheck synccheck; do
            skip "$name" "no compute-sanitizer on the PATH"
        done
    fi
    part bench "$python" scripts/benchmarks/bench_dag_loss.py --device cuda
    step=("$python" scripts/benchmarks/bench_step.py --device cuda --dtype bfloat16 --batch-size 64 --clip-norm 1)
    part bench_step "${step[@]}" --expand-from-layer 0 6 --state-graph dag lattice --optimizer adam
    part bench_compiled "${step[@]}" --compile --optimizer fused_adamw
fi

if [[ -z $data ]]; then
    skip train "no DATA on the command line"
elif [[ -n $without ]]; then
    skip train "$without"
else
    PYTHON=$python part train bash scripts/benchmarks/gpu_train_check.sh "$data"
fi

# ---- The table.

printf '\n%s, logs in %s\n\n' "$(date +%Y-%m-%d)" "$out"
for name in bench bench_step bench_compiled; do
    [[ -s $out/$name.log ]] && wanted "$name" && [[ -z $without ]] && sed -n '/^|/p' "$out/$name.log" && echo
done
printf '| part | result |\n|---|---|\n'
for i in "${!names[@]}"; do
    printf '| %s | %s |\n' "${names[i]}" "${verdicts[i]}"
done
exit "$failed"
