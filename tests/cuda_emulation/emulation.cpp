// The CUDA execution model on one CPU thread: see cuda_runtime.h.
//
// A fiber runs until it waits for its warp or its block. A barrier that some threads do not reach stops the program.
#include "cuda_runtime.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include <memory>
#include <vector>

dim3 threadIdx, blockIdx, blockDim;

namespace {

constexpr unsigned WARP_SIZE = 32;
constexpr size_t STACK = 64 * 1024;

bool reversed = false;  // the order of threads and blocks

struct Barrier {
    unsigned expected = 0, arrived = 0, round = 0;
};

struct Warp {
    Barrier barrier;
    float values[2][WARP_SIZE];  // by round, as a lane may begin a shuffle before others have read the last one
};

struct Fiber {
    ucontext_t context;  // to begin with; then jmp_buf, whose switch makes no system call
    jmp_buf place;
    bool begun = false, done = false;
    std::unique_ptr<unsigned char[]> stack{new unsigned char[STACK]};
    unsigned index = 0, round = 0;
    const Barrier* waits = nullptr;  // while this has that round
};

std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Warp> warps;
Barrier block;
Fiber* current = nullptr;
jmp_buf scheduler;
const std::function<void()>* body = nullptr;

[[noreturn]] void fail(const char* what) {
    fprintf(stderr, "CUDA emulation: %s (block %u,%u)\n", what, blockIdx.x, blockIdx.y);
    abort();
}

void give_way() {  // to the scheduler, until this fiber runs again
    Fiber* const fiber = current;
    if (_setjmp(fiber->place) == 0) _longjmp(scheduler, 1);
}

void run_bodies() {  // of one block after the other
    for (;;) {
        (*body)();
        current->done = true;
        give_way();
    }
}

__attribute__((noinline)) void run(Fiber& fiber) {  // until it waits
    current = &fiber;
    threadIdx = dim3(fiber.index);
    if (_setjmp(scheduler) != 0) return;
    if (fiber.begun) _longjmp(fiber.place, 1);
    fiber.begun = true;
    setcontext(&fiber.context);
}

void run_block(unsigned threads) {
    block = {threads};
    warps.assign(threads / WARP_SIZE, Warp{{WARP_SIZE}, {}});
    while (fibers.size() < threads) fibers.push_back(std::make_unique<Fiber>());
    for (unsigned t = 0; t < threads; ++t) {
        Fiber& fiber = *fibers[t];
        fiber.index = t;
        fiber.waits = nullptr;
        fiber.done = false;
        if (fiber.begun) continue;
        getcontext(&fiber.context);
        fiber.context.uc_stack = {fiber.stack.get(), 0, STACK};
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, run_bodies, 0);
    }
    for (unsigned left = threads; left > 0;) {
        bool progress = false;
        for (unsigned t = 0; t < threads; ++t) {
            Fiber& fiber = *fibers[reversed ? threads - 1 - t : t];
            if (fiber.done || (fiber.waits && fiber.waits->round == fiber.round)) continue;
            run(fiber);
            left -= fiber.done;
            progress = true;
        }
        if (!progress) fail("some threads wait for others that never come");
    }
}

void meet(Barrier& barrier) {
    if (++barrier.arrived == barrier.expected) {
        barrier.arrived = 0;
        ++barrier.round;
        return;
    }
    current->waits = &barrier;
    current->round = barrier.round;
    give_way();
}

}  // namespace

void __syncthreads() { meet(block); }

float __shfl_xor_sync(unsigned mask, float value, int bits) {
    if (mask != 0xffffffffu) fail("only whole warps are emulated");
    const unsigned lane = current->index % WARP_SIZE;
    Warp& warp = warps[current->index / WARP_SIZE];
    float* const values = warp.values[warp.barrier.round % 2];
    values[lane] = value;
    meet(warp.barrier);
    return values[lane ^ static_cast<unsigned>(bits)];
}

void emulate(dim3 grid, unsigned threads, const std::function<void()>& kernel) {
    if (grid.x == 0 || grid.y > 65535 || grid.z > 65535) fail("CUDA takes no such grid");
    body = &kernel;
    blockDim = dim3(threads);
    const unsigned count = grid.x * grid.y * grid.z;
    for (unsigned j = 0; j < count; ++j) {
        const unsigned index = reversed ? count - 1 - j : j;
        blockIdx = dim3(index % grid.x, index / grid.x % grid.y, index / grid.x / grid.y);
        run_block(threads);
    }
}

extern "C" __attribute__((visibility("default"))) void exlm_emulation_reverse(int yes) { reversed = yes; }
