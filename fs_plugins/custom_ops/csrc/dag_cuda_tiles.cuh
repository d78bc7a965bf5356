// The edges of one sentence in the registers and shared memory of one block, for the kernels of dag_cuda_sentence.cuh.
//
// Nodes are cut into slices of 32, and the matrix of edges into tiles of 8 x 32 (forward: from 8 nodes to a slice) or
// 32 x 8 (backward: from a slice to 8 nodes) on and above the diagonal, a lane for each node of the slice. All warps own
// equally many tiles, consecutive in an order in which those of a slice follow each other: the first of them in registers,
// the others in shared memory. A step from target to target has two halves with a barrier after each: (1) warp k adds up
// what has been sent to slice k and makes the slice's new row; (2) each warp adds up what its tiles send, and leaves one
// number for each node of a slice. No value is ever added by two threads in an undetermined order.
#pragma once

#include "dag_cuda_common.cuh"

namespace exlm {

// Warps of a block at most, so that a thread may have 80, 128 or 255 registers. OWN: tiles that a warp has in registers.
template <typename T, int OWN>
constexpr int MAX_WARPS = sizeof(T) == 8 ? 8 : OWN == 1 ? 24 : 16;
constexpr int GROUPS = WARP / GROUP;  // of a slice
constexpr int SLOT_SIZE = WARP * GROUP;

// Tiles of the slices before this one.
__host__ __device__ inline int tiles_before(int slice) { return slice * (slice + 1) / 2 * GROUPS; }

// How a block shares out sentences of up to L nodes.
template <typename T, int OWN>
struct TileLayout {
    static constexpr int PARTS = OWN == 1 ? 12 : 6;  // numbers that may be sent to a node: see Share
    int slices, warps, each, slots;
    __host__ __device__ explicit TileLayout(int L) {
        slices = L < 1 ? 1 : (L + WARP - 1) / WARP;
        const int tiles = tiles_before(slices);
        each = (tiles + MAX_WARPS<T, OWN> - 1) / MAX_WARPS<T, OWN>;
        warps = (tiles + each - 1) / each;
        slots = each > OWN ? each - OWN : 1;  // one at least, through which tiles are brought into registers
    }
    __host__ __device__ int parts() const { return slices * PARTS * WARP; }
    __host__ __device__ int64_t bytes() const {
        const int64_t numbers = slices * WARP + parts(), edges = static_cast<int64_t>(warps) * slots * SLOT_SIZE;
        return (2 * numbers + 2 * WARP + edges) * static_cast<int64_t>(sizeof(T));
    }
};

template <typename T, int OWN>
struct Shared {
    Scaled<T>* nodes;   // [32 * slices] the row that is sent from (backward: that before the row at hand)
    Scaled<T>* parts;   // [slices][PARTS][32] forward: what the warps have sent
    T* shares;          // the same of the backward pass, in the same memory
    Scaled<T>* ratios;  // [32 * slices] backward: the row at hand, as in Ratios; behind the shares
    T* tops;            // [2][32] best path: the slices' largest scores, for even and odd rows
    T* slots;           // [warps][slots][8][32] tiles
    __device__ Shared(unsigned char* pool, const TileLayout<T, OWN>& layout) {
        nodes = reinterpret_cast<Scaled<T>*>(pool);
        parts = nodes + layout.slices * WARP;
        shares = reinterpret_cast<T*>(parts);
        ratios = reinterpret_cast<Scaled<T>*>(shares + layout.parts());
        tops = reinterpret_cast<T*>(parts + layout.parts());
        slots = tops + 2 * WARP;
    }
};

enum Pass { SUM_OF_PATHS, BEST_PATH, POSTERIORS };

// Tile (slice, group), group < 4 (slice + 1): the edges from the group's 8 nodes to the slice's. For POSTERIORS, slices and
// groups are counted from the sentence's end, and the edges are those from the slice's nodes to the group's.
struct Tile {
    int slice, group;
    __device__ bool ends_slice() const { return group == GROUPS * (slice + 1) - 1; }
    __device__ void advance() {
        const bool next = ends_slice();
        group = next ? 0 : group + 1;
        slice += next;
    }
};

// What a warp owns of a sentence's tiles, and where it sends what: the parts of a slice are those of the warps that own some
// of its tiles, in order: 12 at most if a warp has one tile (OWN = 1), else 6.
template <int OWN>
struct Share {
    int slices, count, part;  // of the sentence; tiles of the warp; the warp's place among the parts of its first slice
    Tile first;
    __device__ Share(int n, int warps) : slices((n + WARP - 1) / WARP), first{0, 0} {
        const int tiles = tiles_before(slices), warp = threadIdx.x / WARP;
        const int each = OWN == 1 ? 1 : max(2, (tiles + warps - 1) / warps);
        count = min(each, tiles - warp * each);  // or less than 0
        while (tiles_before(first.slice + 1) <= warp * each) ++first.slice;
        first.group = warp * each - tiles_before(first.slice);
        part = (first.group + each - 1) / each;
    }
    __device__ int part_of(int slice) const { return slice == first.slice ? part : 0; }
};

// Brings a tile into a slot, with -inf where there is no edge.
template <typename T, Pass PASS>
__device__ void load_tile(const T* links, int L, int n, int slices, Tile tile, T* slot) {
    const int lane = threadIdx.x % WARP;
    T values[GROUP];
#pragma unroll
    for (int j = 0; j < GROUP; ++j) {
        int v = GROUP * tile.group + j, u = WARP * tile.slice + lane;
        if (PASS == POSTERIORS) {  // four of the tile's rows at a time
            v = WARP * (slices - 1 - tile.slice) + GROUPS * j + lane / GROUP;
            u = GROUP * (GROUPS * slices - 1 - tile.group) + lane % GROUP;
        }
        values[j] = v < u && u < n ? links[v * L + u] : static_cast<T>(-INFINITY);
    }
#pragma unroll
    for (int j = 0; j < GROUP; ++j) {
        // The backward pass comes here only if all paths are free of NaN: an edge that is one is on none.
        if (PASS == POSTERIORS && values[j] != values[j]) values[j] = -INFINITY;
        const bool by_rows = PASS == POSTERIORS;
        slot[by_rows ? lane % GROUP * WARP + GROUPS * j + lane / GROUP : j * WARP + lane] = values[j];
    }
}

template <typename T, int OWN, Pass PASS>
__device__ void load_tiles(const T* links, int L, int n, const Share<OWN>& share, T* slots, T (&own)[OWN][GROUP]) {
    const int lane = threadIdx.x % WARP;
    Tile tile = share.first;
#pragma unroll
    for (int t = 0; t < OWN; ++t) {
        if (t >= share.count) break;
        load_tile<T, PASS>(links, L, n, share.slices, tile, slots);
        __syncwarp();
#pragma unroll
        for (int j = 0; j < GROUP; ++j) own[t][j] = slots[j * WARP + lane];
        __syncwarp();
        tile.advance();
    }
    for (int t = OWN; OWN > 1 && t < share.count; ++t, tile.advance()) {
        load_tile<T, PASS>(links, L, n, share.slices, tile, slots + (t - OWN) * SLOT_SIZE);
    }
    __syncwarp();
}

// Calls add(tile, links) for each of the warp's tiles, and send(slice) after the last of a slice.
template <typename T, int OWN, typename Add, typename Send>
__device__ void for_own_tiles(const Share<OWN>& share, const T* slots, const T (&own)[OWN][GROUP], Add add, Send send) {
    Tile tile = share.first;
#pragma unroll
    for (int t = 0; t < OWN; ++t) {
        if (t >= share.count) return;
        add(tile, own[t]);
        if (t + 1 == share.count || tile.ends_slice()) send(tile.slice);
        tile.advance();
    }
    for (int t = OWN; OWN > 1 && t < share.count; ++t, tile.advance()) {
        T links[GROUP];
#pragma unroll
        for (int j = 0; j < GROUP; ++j) links[j] = slots[((t - OWN) * GROUP + j) * WARP + threadIdx.x % WARP];
        add(tile, links);
        if (t + 1 == share.count || tile.ends_slice()) send(tile.slice);
    }
}

}  // namespace exlm
