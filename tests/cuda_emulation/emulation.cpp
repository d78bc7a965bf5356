// The CUDA execution model on one CPU thread: see cuda_runtime.h.
//
// A fiber runs until it waits for its warp or its block. What the order of threads and blocks must not change can be
// tested by changing it (exlm_emulation_set). A barrier that some threads do
// not reach, and lanes of one warp in different operations, stop the program.
#include "cuda_runtime.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include <memory>
#include <numeric>
#include <random>
#include <vector>


dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace {

constexpr int WARP_SIZE = 32;
constexpr size_t STACK = 64 * 1024;

unsigned order_seed = 0;    // 0: threads and blocks in ascending order
cudaError_t last_error = cudaSuccess;

enum State { RUNS, WAITS_FOR_WARP, WAITS_FOR_BLOCK, DONE };

struct Fiber {
    ucontext_t context;  // to begin with; then jmp_buf, whose switch makes no system call
    jmp_buf place;
    bool begun = false;
    std::unique_ptr<unsigned char[]> stack{new unsigned char[STACK]};
    State state = DONE;
    unsigned index = 0, parity = 0;
    emulation::Operation operation = emulation::SHUFFLE;
};

struct Warp {
    uint64_t values[2][WARP_SIZE];
    int alive = 0, arrived = 0;
};

std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Warp> warps;
int alive = 0, arrived = 0;
Fiber* current = nullptr;
jmp_buf scheduler;
const std::function<void()>* body = nullptr;

[[noreturn]] void fail(const char* what) {
    fprintf(stderr, "CUDA emulation: %s (block %u,%u, thread %u)\n", what, blockIdx.x, blockIdx.y, threadIdx.x);
    abort();
}

Warp& warp_of(const Fiber& fiber) { return warps[fiber.index / WARP_SIZE]; }

__attribute__((noinline)) void switch_to(Fiber* fiber) {  // from the scheduler
    current = fiber;
    threadIdx = dim3(fiber->index);
    if (_setjmp(scheduler) == 0) {
        if (fiber->begun) _longjmp(fiber->place, 1);
        fiber->begun = true;
        setcontext(&fiber->context);
    }
    current = nullptr;
}

void give_way() {  // to the scheduler, until this fiber runs again
    Fiber* const fiber = current;
    if (_setjmp(fiber->place) == 0) _longjmp(scheduler, 1);
}

void run_bodies() {  // of one block after the other
    for (;;) {
        (*body)();
        Fiber* const fiber = current;
        if (warp_of(*fiber).arrived > 0) fail("a thread ends while its warp waits for it");
        if (arrived > 0) fail("a thread ends while its block waits for it");
        fiber->state = DONE;
        --warp_of(*fiber).alive;
        --alive;
        give_way();
    }
}

void release(State waiting, unsigned first, unsigned end) {
    for (unsigned t = first; t < end; ++t) {
        if (fibers[t]->state == waiting) fibers[t]->state = RUNS;
    }
}

__attribute__((noinline)) void prepare(Fiber& fiber) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = STACK;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_bodies, 0);
}

void run_block(unsigned threads) {
    std::vector<unsigned> by_warp(threads / WARP_SIZE);
    std::iota(by_warp.begin(), by_warp.end(), 0u);
    if (order_seed == 1) std::reverse(by_warp.begin(), by_warp.end());
    if (order_seed > 1) std::shuffle(by_warp.begin(), by_warp.end(), std::mt19937(order_seed));
    warps.assign(threads / WARP_SIZE, Warp{});
    alive = static_cast<int>(threads);
    arrived = 0;
    while (fibers.size() < threads) fibers.push_back(std::make_unique<Fiber>());
    for (unsigned t = 0; t < threads; ++t) {
        Fiber& fiber = *fibers[t];
        fiber.index = t;
        fiber.parity = 0;
        fiber.state = RUNS;
        ++warps[t / WARP_SIZE].alive;
        if (!fiber.begun) prepare(fiber);
    }
    while (alive > 0) {
        bool progress = false;
        for (const unsigned w : by_warp) {
            for (bool again = true; again;) {
                again = false;
                for (unsigned j = 0; j < WARP_SIZE; ++j) {
                    Fiber* const fiber = fibers[w * WARP_SIZE + (order_seed % 2 == 1 ? WARP_SIZE - 1 - j : j)].get();
                    if (fiber->state != RUNS) continue;
                    switch_to(fiber);
                    again = progress = true;
                }
            }
        }
        if (!progress && alive > 0) fail("some threads wait for others that never come");
    }
}

// Waits for all lanes of the warp, which must be in the same operation.
void meet_warp(emulation::Operation operation, unsigned mask) {
    if (mask != 0xffffffffu) fail("only whole warps are emulated");
    Fiber* const fiber = current;
    Warp& warp = warp_of(*fiber);
    if (warp.alive != WARP_SIZE) fail("a warp operation after some lanes have ended");
    fiber->operation = operation;
    fiber->parity ^= 1;
    const unsigned first = fiber->index / WARP_SIZE * WARP_SIZE;
    fiber->state = WAITS_FOR_WARP;
    if (++warp.arrived == WARP_SIZE) {
        for (unsigned t = first; t < first + WARP_SIZE; ++t) {
            if (fibers[t]->operation != operation) fail("lanes of a warp are in different operations");
        }
        warp.arrived = 0;
        release(WAITS_FOR_WARP, first, first + WARP_SIZE);
    } else {
        give_way();
    }
}

}  // namespace

namespace emulation {

int lane() { return static_cast<int>(current->index % WARP_SIZE); }

// Two sets of slots take turns: a lane can be at most one operation ahead of the others.
uint64_t exchange(Operation operation, unsigned mask, uint64_t value, int source) {
    Fiber* const fiber = current;
    warp_of(*fiber).values[fiber->parity ^ 1][lane()] = value;
    meet_warp(operation, mask);
    return warp_of(*fiber).values[fiber->parity][source % WARP_SIZE];
}

void launch(dim3 grid, dim3 block, const std::function<void()>& kernel) {
    const bool good = grid.x >= 1 && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535 &&
                      block.x >= 1 && block.x <= 1024 && block.y == 1 && block.z == 1;
    if (!good) {
        last_error = cudaErrorInvalidValue;
        return;
    }
    if (block.x % WARP_SIZE != 0) fail("only whole warps are emulated");
    body = &kernel;
    blockDim = block;
    gridDim = grid;
    const uint64_t count = static_cast<uint64_t>(grid.x) * grid.y * grid.z;
    for (uint64_t j = 0; j < count; ++j) {
        const uint64_t index = order_seed % 2 == 1 ? count - 1 - j : j;
        blockIdx = dim3(static_cast<unsigned>(index % grid.x), static_cast<unsigned>(index / grid.x % grid.y),
                        static_cast<unsigned>(index / grid.x / grid.y));
        run_block(block.x);
    }
}

}  // namespace emulation

void __syncthreads() {
    Fiber* const fiber = current;
    if (warp_of(*fiber).alive != WARP_SIZE || alive != static_cast<int>(blockDim.x)) {
        fail("a block's barrier after some of its threads have ended");
    }
    fiber->state = WAITS_FOR_BLOCK;
    if (++arrived == alive) {
        arrived = 0;
        release(WAITS_FOR_BLOCK, 0, blockDim.x);
    } else {
        give_way();
    }
}

cudaError_t cudaGetLastError() {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

// The order of threads and blocks: 0 ascending, else others.
extern "C" __attribute__((visibility("default"))) void exlm_emulation_set(unsigned seed) {
    order_seed = seed;
}
