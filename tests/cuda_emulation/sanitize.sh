#!/usr/bin/env bash
# Runs the emulated CUDA kernels under AddressSanitizer and UndefinedBehaviorSanitizer, then under ThreadSanitizer, which
# sees every thread of a block as one of its own: compute-sanitizer's memcheck and racecheck for a machine without a GPU.
# Needs g++ and some minutes. The command line may name one of the two: address, thread.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
csrc=../../fs_plugins/custom_ops/csrc
flags=(-std=c++17 -O1 -g -Wno-unknown-pragmas -I. "-I$csrc")

check_addresses() {
    g++ "${flags[@]}" -fsanitize=address,undefined -fno-sanitize-recover=undefined \
        -x c++ "$csrc/dag_cuda.cu" emulation.cpp driver.cpp -o "$folder/addresses"
    ASAN_OPTIONS=detect_stack_use_after_return=0 "$folder/addresses"
}

check_races() {
    # The emulation is not instrumented: its own bookkeeping is no part of what is checked.
    g++ "${flags[@]}" -DEMULATE_UNDER_TSAN -c emulation.cpp -o "$folder/emulation.o"
    g++ "${flags[@]}" -fsanitize=thread -x c++ "$csrc/dag_cuda.cu" driver.cpp -x none "$folder/emulation.o" -o "$folder/races"
    TSAN_OPTIONS=halt_on_error=1 "$folder/races"
}

case ${1:-both} in
address) check_addresses ;;
thread) check_races ;;
both)
    check_addresses
    check_races
    ;;
*)
    echo "usage: $0 [address|thread]" >&2
    exit 2
    ;;
esac
