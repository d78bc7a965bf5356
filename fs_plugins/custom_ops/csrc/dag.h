// States alignment (ExLM, section 4.3): the sum over all alignments of graph nodes to targets.
//
//   f(0, u) = match(0, u) if u = 0, else nothing
//   f(i, u) = match(i, u) * sum over v < u of f(i - 1, v) * links(v, u)          i = 1 .. m - 1
//   probability of the targets = f(m - 1, n - 1)
//
// in logarithms, for each sentence b with n = node_lengths[b] nodes and m = target_lengths[b] targets, so every path
// starts at node 0, ends at node n - 1, moves forward only and emits one target a node. A sentence without a path
// (m > n, m < 1, m = 1 < n, or -inf on all paths) has log-probability -inf and zero gradients. NaN where a path
// from node 0 comes to makes the sentence's log-probability, and with it its gradients, NaN. Entries beyond n and m are
// never read, and their gradients are zero.
//
// Shapes (row-major, contiguous; B sentences, M targets and L nodes of the longest sentence):
//   match          [B][M][L]  log-probability that node u emits target i
//   links          [B][L][L]  log-probability of the edge v -> u; read for v < u only
//   node_lengths   [B]        int64, 0 <= n <= L
//   target_lengths [B]        int64, 0 <= m <= M
//   log_prob       [B]
//   alpha          [B][M][L]  log f(i, u), on CUDA [B][M][L][2] (exponent, mantissa); saved by the forward pass for
//                             the backward pass
//
// The ABI is plain C, so that a build needs no torch and survives its upgrades. All functions return 0, or a negative
// EXLM_DAG_* code, or (CUDA) a positive cudaError_t.
#pragma once

#include <stdint.h>

#if defined(_WIN32)
#define EXLM_API extern "C" __declspec(dllexport)
#else
#define EXLM_API extern "C" __attribute__((visibility("default")))
#endif

enum {
    EXLM_DAG_OK = 0,
    EXLM_DAG_BAD_DTYPE = -1,
    EXLM_DAG_BAD_SIZE = -2,
    EXLM_DAG_NO_MEMORY = -3,
};

// Type of match, links, log_prob and their gradients on the CPU.
enum { EXLM_DAG_FLOAT32 = 0, EXLM_DAG_FLOAT64 = 1 };

// Of these functions and their arguments: a library that says another number is not loaded.
enum { EXLM_DAG_VERSION = 2 };
EXLM_API int exlm_dag_version(void);

// ---- CPU (dag_cpu.cpp). alpha is always double: sums are taken in double whatever the type of the input.

EXLM_API int exlm_dag_forward_cpu(int dtype, int64_t B, int64_t M, int64_t L,
                                  const void* match,              // [B][M][L]
                                  const void* links,              // [B][L][L]
                                  const int64_t* node_lengths,    // [B]
                                  const int64_t* target_lengths,  // [B]
                                  void* log_prob,                 // [B]
                                  double* alpha,                  // [B][M][L]
                                  int num_threads);

EXLM_API int exlm_dag_backward_cpu(int dtype, int64_t B, int64_t M, int64_t L,
                                   const void* grad_log_prob,      // [B]
                                   const void* match,              // [B][M][L]
                                   const void* links,              // [B][L][L]
                                   const int64_t* node_lengths,    // [B]
                                   const int64_t* target_lengths,  // [B]
                                   const double* alpha,            // [B][M][L], from the forward pass
                                   void* grad_match,               // [B][M][L]
                                   void* grad_links,               // [B][L][L]
                                   int num_threads);

// ---- CUDA (dag_cuda.cu), float32 only. Pointers are to device memory of the current device; stream is a cudaStream_t.
// Nothing is allocated and nothing waits for the host: the caller brings `workspace` for the backward pass. Lengths out
// of range count as a sentence without a path. alpha holds f(i, u) as two numbers, exponent and mantissa:
// f = mantissa * 2^exponent.

// What a positive return code means, in CUDA's words.
EXLM_API const char* exlm_dag_error_string_cuda(int code);

EXLM_API int exlm_dag_forward_cuda(int64_t B, int64_t M, int64_t L,
                                   const float* match,              // [B][M][L]
                                   const float* links,              // [B][L][L]
                                   const int64_t* node_lengths,     // [B]
                                   const int64_t* target_lengths,   // [B]
                                   float* log_prob,                 // [B]
                                   float* alpha,                    // [B][M][L][2]
                                   void* stream);

EXLM_API int exlm_dag_backward_cuda(int64_t B, int64_t M, int64_t L,
                                    const float* grad_log_prob,     // [B]
                                    const float* match,             // [B][M][L]
                                    const float* links,             // [B][L][L]
                                    const int64_t* node_lengths,    // [B]
                                    const int64_t* target_lengths,  // [B]
                                    const float* alpha,             // [B][M][L][2], from the forward pass
                                    float* grad_match,              // [B][M][L]
                                    float* grad_links,              // [B][L][L]
                                    float* workspace,               // [B][M][L][2]
                                    void* stream);
