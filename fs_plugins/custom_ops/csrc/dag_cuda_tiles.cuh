// The edges of one sentence in the registers and shared memory of one block, and the products with them that the
// kernels of dag_cuda_sentence.cuh are made of.
//
// Nodes are cut into slices of 32; tile (k, c), k <= c, holds the edges from slice k to slice c, as exp(link - shift).
// Warp w owns the tiles w, w + warps, ...: the first (float32) in its registers, the others in shared memory. A step
// from target to target has two halves with a barrier after each: (1) warp k adds up what the tiles have sent to slice
// k and makes the slice's new row of alpha (or posterior); (2) each warp sends each of its tiles' 32 x 32 vector-matrix
// product. No value is ever added by two threads in an undetermined order.
#pragma once

#include "dag_cuda_common.cuh"

namespace exlm {

constexpr int MAX_WARPS = 24;  // so that a thread may have 80 registers: 32 hold the tile that it keeps there
constexpr int PITCH = WARP + 1;  // a tile's rows in shared memory: rows and columns are both free of bank conflicts
constexpr int TILE_SIZE = WARP * PITCH;
constexpr int STAGING_SLOTS = 8;

// Shared memory of a block for sentences of up to L nodes.
template <typename T>
struct TileLayout {
    static constexpr bool OWN_IN_REGISTERS = sizeof(T) == 4;
    int slices, tiles, warps, slots;
    __host__ __device__ explicit TileLayout(int L) {
        slices = (L + WARP - 1) / WARP;
        tiles = slices * (slices + 1) / 2;
        warps = tiles < 1 ? 1 : (tiles < MAX_WARPS ? tiles : MAX_WARPS);
        const int staging = warps < STAGING_SLOTS ? warps : STAGING_SLOTS;
        slots = !OWN_IN_REGISTERS ? tiles : (tiles - warps > staging ? tiles - warps : staging);
    }
    __host__ __device__ int tops() const { return slices * WARP < 2 * WARP ? 2 * WARP : slices * WARP; }
    __host__ __device__ int64_t bytes() const {
        const int64_t words = static_cast<int64_t>(tiles) * WARP + WARP;  // masks and flags
        const int64_t values = static_cast<int64_t>(slots) * TILE_SIZE + (tiles + 3 * slices + 1) * WARP + tops();
        return values * static_cast<int64_t>(sizeof(T)) + words * static_cast<int64_t>(sizeof(uint32_t));
    }
};

template <typename T>
struct Shared {
    T* slots;         // [slots][32][33] tiles; row: v, column: u
    T* parts;         // [tiles][32] what each tile has sent
    T* rows[3];       // [32 * slices] each
    T* tops;          // [2][32] by slice, for even and odd rows (forward); [M] by row (backward)
    T* scratch;       // [32]
    uint32_t* masks;  // [tiles][32] by column: bit j is set if the edge from node j of the slice exists (forward)
    uint32_t* flags;  // [32] by slice: one bit a node
    __device__ Shared(unsigned char* pool, const TileLayout<T>& layout) {
        slots = reinterpret_cast<T*>(pool);
        parts = slots + layout.slots * TILE_SIZE;
        for (int r = 0; r < 3; ++r) rows[r] = parts + (layout.tiles + r * layout.slices) * WARP;
        tops = rows[2] + layout.slices * WARP;
        scratch = tops + layout.tops();
        masks = reinterpret_cast<uint32_t*>(scratch + WARP);
        flags = masks + layout.tiles * WARP;
    }
};

// Tiles in the order (0, 0), (0, 1), (1, 1), (0, 2), ...: those of a shorter sentence come first.
struct Tile {
    int k, c;
    __device__ explicit Tile(int index) : k(index), c(0) { settle(); }
    __device__ void advance(int count) {
        k += count;
        settle();
    }
    __device__ void settle() {
        while (k > c) k -= ++c;
    }
    static __device__ int index(int k, int c) { return c * (c + 1) / 2 + k; }
};

// Brings the links of a tile into a slot, -inf where there is no edge, and returns the largest that this lane has seen.
template <typename T>
__device__ T load_links(const T* links, int L, int n, Tile tile, T* slot, uint32_t* masks) {
    const int lane = threadIdx.x % WARP, u = WARP * tile.c + lane;
    T top = -INFINITY;
    uint32_t mask = 0;
#pragma unroll 16
    for (int j = 0; j < WARP; ++j) {
        const int v = WARP * tile.k + j;
        const T link = v < u && u < n ? links[v * L + u] : static_cast<T>(-INFINITY);
        slot[j * PITCH + lane] = link;
        top = larger(top, link);
        mask |= static_cast<uint32_t>(link != -INFINITY) << j;
    }
    masks[lane] = mask;
    return top;
}

enum Pass { SUM_OF_PATHS, BEST_PATH, POSTERIORS };

// The tiles of a sentence: links read, the sentence's largest link (shift, returned) found, edges made of them.
// BEST_PATH keeps the links. Forward passes keep a column (u) of a warp's own tile in each lane, the backward pass a
// row (v).
template <typename T, Pass PASS>
__device__ T load_tiles(const T* links, int L, int n, const TileLayout<T>& layout, const Shared<T>& shared,
                        T (&own)[WARP]) {
    constexpr bool OWN = TileLayout<T>::OWN_IN_REGISTERS;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = layout.warps;
    const int slices = (n + WARP - 1) / WARP, tiles = slices * (slices + 1) / 2;
    T top = -INFINITY;
    if constexpr (OWN) {  // staged through shared memory, as many at a time as fit
        for (int first = 0; first < warps; first += layout.slots) {
            if (warp >= first && warp < first + layout.slots && warp < tiles) {
                T* const slot = shared.slots + (warp - first) * TILE_SIZE;
                top = load_links(links, L, n, Tile(warp), slot, shared.masks + warp * WARP);
                __syncwarp();
#pragma unroll
                for (int j = 0; j < WARP; ++j) own[j] = slot[PASS == POSTERIORS ? lane * PITCH + j : j * PITCH + lane];
            }
            __syncthreads();
        }
    }
    const int beyond = OWN ? warps : 0;
    for (int t = warp + beyond; t < tiles; t += warps) {
        T* const slot = shared.slots + (t - beyond) * TILE_SIZE;
        top = larger(top, load_links(links, L, n, Tile(t), slot, shared.masks + t * WARP));
    }
    if (PASS == BEST_PATH) {
        __syncthreads();
        return 0;
    }
    top = block_max(top, shared.scratch);
    const T shift = top == -INFINITY ? T(0) : top;
    // The backward pass comes here only if all paths are free of NaN: an edge that is one is on none.
    auto edge = [shift](T link) {
        const T probability = exp_of(link - shift);
        return PASS == POSTERIORS && probability != probability ? T(0) : probability;
    };
    if (OWN && warp < tiles) {
#pragma unroll
        for (int j = 0; j < WARP; ++j) own[j] = edge(own[j]);
    }
    for (int t = warp + beyond; t < tiles; t += warps) {
        T* const slot = shared.slots + (t - beyond) * TILE_SIZE;
        for (int j = 0; j < WARP; ++j) slot[j * PITCH + lane] = edge(slot[j * PITCH + lane]);
    }
    __syncwarp();
    return shift;
}

// Calls send(tile, its index, edge) for each of the warp's tiles; edge(j) is the tile's entry of this lane and node j.
template <typename T, bool BY_SOURCE, typename Send>
__device__ void for_own_tiles(int tiles, const TileLayout<T>& layout, const Shared<T>& shared, const T (&own)[WARP],
                              Send send) {
    constexpr bool OWN = TileLayout<T>::OWN_IN_REGISTERS;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = layout.warps;
    Tile tile(warp);
    int t = warp;
    if (OWN && t < tiles) send(tile, t, [&](int j) { return own[j]; });
    if (OWN) {
        tile.advance(warps);
        t += warps;
    }
    for (; t < tiles; t += warps, tile.advance(warps)) {
        const T* const slot = shared.slots + (t - (OWN ? warps : 0)) * TILE_SIZE + (BY_SOURCE ? lane * PITCH : lane);
        send(tile, t, [&](int j) { return slot[BY_SOURCE ? j : j * PITCH]; });
    }
}

// Sum over j of row[j] * edge(j), in a fixed order.
template <typename T, typename Edge>
__device__ T product(const T* row, Edge edge) {
    T sums[4] = {0, 0, 0, 0};
#pragma unroll
    for (int j = 0; j < WARP; j += Pack<T>::SIZE) {
        const Pack<T> pack = Pack<T>::load(row + j);
#pragma unroll
        for (int l = 0; l < Pack<T>::SIZE; ++l) sums[(j + l) % 4] += pack.at[l] * edge(j + l);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// A tile's sum for one column, taken in the log domain over the nodes set in `nodes` (not 0), whose alphas and links
// these are: its log, which is below LOG_PART, or the sum itself if it is not so small after all (a NaN spoiled the
// product).
template <typename T>
__device__ T exact_part(const T* alphas, const T* links, int L, uint32_t nodes, T scale) {
    T top = -INFINITY, sum = 0;
#pragma unroll 4
    for (int j = 0; j < WARP; ++j) {
        if (nodes >> j & 1) top = larger(top, alphas[j] + links[j * L]);
    }
#pragma unroll 4
    for (int j = 0; j < WARP; ++j) {
        if (nodes >> j & 1) sum += exp_of(alphas[j] + links[j * L] - top);
    }
    const T log_sum = (top - scale) + log_of(sum);
    return log_sum < Limits<T>::LOG_PART ? log_sum : exp_of(log_sum);
}

// Log of the sum of a column's parts 0 .. k, where part j has the scale tops[j]; a negative part is a log.
template <typename T>
__device__ T sum_parts(const T* parts, const T* tops, int k, T top) {
    const int lane = threadIdx.x % WARP;
    const T factor = lane <= k && tops[lane] > -INFINITY ? exp_of(tops[lane] - top) : T(0);
    T sum = 0;
    bool any = false;
    for (int j = 0; j <= k; ++j) {
        const T part = parts[j * WARP + lane];
        sum += __shfl_sync(ALL, factor, j) * (part < 0 ? T(0) : part);
        any |= part != 0;
    }
    if (!any) return -INFINITY;
    if (!(sum < Limits<T>::SUM)) return top + log_of(sum);  // NaN goes this way
    T largest = -INFINITY, scaled = 0;
    for (int j = 0; j <= k; ++j) {
        const T part = parts[j * WARP + lane];
        if (part != 0) largest = larger(largest, tops[j] + (part < 0 ? part : log_of(part)));
    }
    for (int j = 0; j <= k; ++j) {
        const T part = parts[j * WARP + lane];
        if (part != 0) scaled += exp_of(tops[j] + (part < 0 ? part : log_of(part)) - largest);
    }
    return largest + log_of(scaled);
}

}  // namespace exlm
