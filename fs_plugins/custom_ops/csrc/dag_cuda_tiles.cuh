// The edges of one sentence in the registers and shared memory of one block, for the kernels of dag_cuda_sentence.cuh.
//
// Nodes are cut into slices of 32, and the matrix of edges into tiles of 8 or 16 x 32 (forward: from 8 nodes to a
// slice, or 16) or 32 x 8 (backward: from a slice to 8 nodes) on and above the diagonal, a lane for each node of the
// slice. README.md says how the warps share them, and what the two halves of a step do. Tiles are counted slice by
// slice. No value is ever added by two threads in an undetermined order.
#pragma once

#include "dag_cuda_common.cuh"

namespace exlm {

// Warps of a block at most, so that a thread may have 80, 168 or 255 registers. OWN: tiles that a warp has in
// registers.
template <int OWN>
constexpr int MAX_WARPS = OWN == 1 ? 24 : 12;

enum Pass { SUM_OF_PATHS, POSTERIORS };

// Tile (slice, group): the edges from the group's SIZE nodes to the slice's. For POSTERIORS, slices and
// groups are counted from the sentence's end, and the edges are those from the slice's nodes to the group's.
struct alignas(16) Tile {
    int slice, group;
    int part;  // where it sends what its edges add up to
    int none;  // 0: a tile is read at once, and what is read has to be written
};

// How a block shares out sentences of up to L nodes.
template <int OWN, Pass PASS>
struct TileLayout {
    static constexpr bool FACTORED = PASS == SUM_OF_PATHS && OWN > 1;
    static constexpr int SIZE = FACTORED ? BUNDLE : GROUP;      // nodes of a group
    static constexpr int NUMBERS = FACTORED ? FACTORS : GROUP;  // of a lane's edges
    static constexpr int GROUPS = WARP / SIZE;                     // of a slice
    static constexpr int MOST = MAX_WARPS<OWN>;
    static constexpr int PARTS = OWN == 1 && MOST > 12 ? 12 : MOST;  // sent to a node: 3 slices have 12 tiles at most
    static constexpr int SLOT_SIZE = WARP * NUMBERS;
    int slices, warps, each, slots;
    __host__ __device__ explicit TileLayout(int L) {
        slices = L < 1 ? 1 : (L + WARP - 1) / WARP;
        const int tiles = tiles_before(slices);
        each = (tiles + MOST - 1) / MOST;
        warps = (tiles + each - 1) / each;
        slots = each > OWN ? each - OWN : 1;  // one at least, through which tiles are brought into registers
    }
    // Tiles of the slices before this one.
    __host__ __device__ static int tiles_before(int slice) { return slice * (slice + 1) / 2 * GROUPS; }
    __host__ __device__ int parts() const { return slices * PARTS * WARP; }
    __host__ __device__ int64_t bytes() const {
        const int64_t numbers = slices * WARP + parts(), edges = static_cast<int64_t>(warps) * slots * SLOT_SIZE;
        const int64_t many =
            (OWN > 1 ? sizeof(Tile) * warps * each : 0) + (FACTORED ? sizeof(Weights) * GROUPS * slices : 0);
        return (2 * numbers + edges) * static_cast<int64_t>(sizeof(float)) + many;
    }
};

template <int OWN, Pass PASS>
struct SharedMemory {
    Scaled* nodes;           // [32 * slices] the row that is sent from (backward: that before the row at hand)
    Scaled* parts;           // [slices][PARTS][32] forward: what the warps have sent
    float* posterior_parts;  // the same of the backward pass, in the same memory
    Scaled* ratios;          // [32 * slices] backward: the row at hand, as in Ratios; behind the parts
    float* slots;            // [warps][slots][SLOT_SIZE] tiles
    Tile* tiles;             // [warps][each] if a warp has more than one
    Weights* weights;        // [GROUPS * slices] forward, likewise: the nodes once more
    __device__ SharedMemory(unsigned char* pool, const TileLayout<OWN, PASS>& layout) {
        nodes = reinterpret_cast<Scaled*>(pool);
        parts = nodes + layout.slices * WARP;
        posterior_parts = reinterpret_cast<float*>(parts);
        ratios = reinterpret_cast<Scaled*>(posterior_parts + layout.parts());
        slots = reinterpret_cast<float*>(parts + layout.parts());
        tiles = reinterpret_cast<Tile*>(slots + layout.warps * layout.slots * layout.SLOT_SIZE);
        weights = reinterpret_cast<Weights*>(tiles + layout.warps * layout.each);
    }
};

// What a warp owns of a sentence's tiles: numbers warp, warp + warps, ..., at most 32. Lane t knows about tile t, and
// so do all by `tiles`; if a warp has one tile (OWN = 1), all lanes know.
template <int OWN, Pass PASS>
class WarpTiles {
    using Layout = TileLayout<OWN, PASS>;
    Tile mine;
    int first_step, last_step;  // between which the tile is at work
    uint32_t followed;          // bit t: tile t + 1 is of the slice of tile t
    const Tile* tiles;

public:
    int slices, count;  // of the sentence; tiles of this warp
    __device__ WarpTiles(const Band& band, const Layout& layout, Tile* all_tiles) {
        const int warp = threadIdx.x / WARP, place = OWN == 1 ? 0 : threadIdx.x % WARP,
                  number = warp + place * layout.warps;
        slices = (band.n + WARP - 1) / WARP;
        count = max(0, (layout.tiles_before(slices) - warp + layout.warps - 1) / layout.warps);
        mine.slice = 0;
        while (layout.tiles_before(mine.slice + 1) <= number) ++mine.slice;
        mine.group = number - layout.tiles_before(mine.slice);
        mine.part = (mine.slice * layout.PARTS + mine.group % layout.warps) * WARP;
        mine.none = 0;
        // The first and last step at which both the slice and the group are in the band; and the step after the group
        // has left it, at which the tile sends 0.
        const int slack = band.n - band.m, from = WARP * mine.slice, group = Layout::SIZE * mine.group;
        if (PASS == POSTERIORS) {
            const int v = WARP * (slices - 1) - from, u = WARP * slices - GROUP - group;  // SIZE is GROUP
            first_step = max(v - slack + 1, u - slack - 1);
            last_step = min(v + WARP, u + GROUP - 1);
        } else {
            first_step = max(group - slack, from - slack - 1);
            last_step = min(group + Layout::SIZE, from + WARP - 2);
        }
        if (place >= count) last_step = -1;
        tiles = all_tiles + warp * layout.each;
        followed = 0;
        if (OWN > 1) {
            const int next = __shfl_sync(ALL, mine.slice, (place + 1) % WARP);
            followed = __ballot_sync(ALL, place + 1 < count && next == mine.slice);
            if (place < count) all_tiles[warp * layout.each + place] = mine;
            __syncwarp();
        }
    }
    __device__ Tile tile(int t) const { return OWN == 1 ? mine : tiles[t]; }
    // Bit t: tile t is at work from target i.
    __device__ uint32_t at_work(int i) const {
        const bool works = i >= first_step && i <= last_step;
        return OWN == 1 ? works : __ballot_sync(ALL, works);
    }
    // Bit t: tile t goes on with the sum of tile t - 1.
    __device__ uint32_t continuing(uint32_t at_work) const { return at_work & (at_work & followed) << 1; }
};

// A slot is read in packs of 16 bytes a lane: the place of a lane's j-th number of COUNT. What does not fill a pack
// follows the others.
template <int COUNT>
__device__ int place_in_slot(int lane, int j) {
    constexpr int PACK = 16 / sizeof(float), PACKED = COUNT / PACK * PACK;
    return j >= PACKED ? j * WARP + lane : (j / PACK * WARP + lane) * PACK + j % PACK;
}

template <int COUNT>
__device__ void read_slot(const float* slot, float (&numbers)[COUNT]) {
    constexpr int PACK = 16 / sizeof(float);
    struct alignas(16) Pack {
        float at[PACK];
    };
    const Pack* const packs = reinterpret_cast<const Pack*>(slot) + threadIdx.x % WARP;
#pragma unroll
    for (int j = 0; j + PACK <= COUNT; j += PACK) {
        const Pack pack = packs[j / PACK * WARP];
#pragma unroll
        for (int l = 0; l < PACK; ++l) numbers[j + l] = pack.at[l];
    }
#pragma unroll
    for (int j = COUNT / PACK * PACK; j < COUNT; ++j) numbers[j] = slot[place_in_slot<COUNT>(threadIdx.x % WARP, j)];
}

// Links of a tile: to a lane's node those from the group; for POSTERIORS, which wants them in the other direction, four
// of the tile's rows at a time. -inf where there is no edge.
template <typename Layout, Pass PASS>
__device__ void fetch_tile(const float* links, int L, int n, int slices, Tile tile, float (&values)[Layout::NUMBERS]) {
    constexpr int GROUPS = Layout::GROUPS;
    const int lane = threadIdx.x % WARP;
    int v = Layout::SIZE * tile.group, u = WARP * tile.slice + lane, step = 1;
    if (PASS == POSTERIORS) {
        v = WARP * (slices - 1 - tile.slice) + lane / GROUP;
        u = GROUP * (GROUPS * slices - 1 - tile.group) + lane % GROUP;
        step = GROUPS;
    }
    const float* from = links + static_cast<int64_t>(v) * L + u;
#pragma unroll
    for (int j = 0; j < Layout::SIZE; ++j, v += step, from += step * L) {
        values[j] = v < u && u < n ? *from : -INFINITY;
    }
}

// Puts a tile into a slot.
template <Pass PASS, int COUNT>
__device__ void store_tile(const float (&values)[COUNT], float* slot) {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
        if (PASS != POSTERIORS) {
            slot[place_in_slot<COUNT>(lane, j)] = values[j];
            continue;
        }
        // The backward pass comes here only if all paths are free of NaN: an edge that is one is on none.
        slot[place_in_slot<COUNT>(WARP / GROUP * j + lane / GROUP, lane % GROUP)] =
            values[j] == values[j] ? values[j] : -INFINITY;
    }
}

// The warp's tiles into registers and slots: links, or (FACTORED) what is made of them. A tile is asked for before the
// one before it is worked on.
template <int OWN, Pass PASS, int COUNT>
__device__ void load_tiles(const float* links, int L, int n, const WarpTiles<OWN, PASS>& owned, float* slots,
                           float (&own)[OWN][COUNT]) {
    using Layout = TileLayout<OWN, PASS>;
#pragma unroll
    for (int t = 0; t < OWN; ++t) {
        if (t < owned.count) fetch_tile<Layout, PASS>(links, L, n, owned.slices, owned.tile(t), own[t]);
    }
#pragma unroll
    for (int t = 0; t < OWN; ++t) {
        if (t >= owned.count) break;
        if constexpr (Layout::FACTORED) to_factors(own[t]);
        if (PASS != POSTERIORS) continue;
        store_tile<PASS>(own[t], slots);
        __syncwarp();
        read_slot(slots, own[t]);
        __syncwarp();
    }
    if (OWN == 1 || owned.count <= OWN) return;
    float next[COUNT];
    fetch_tile<Layout, PASS>(links, L, n, owned.slices, owned.tile(OWN), next);
    for (int t = OWN; t < owned.count; ++t) {
        float values[COUNT];
#pragma unroll
        for (int j = 0; j < Layout::SIZE; ++j) values[j] = next[j];
        if (t + 1 < owned.count) fetch_tile<Layout, PASS>(links, L, n, owned.slices, owned.tile(t + 1), next);
        if constexpr (Layout::FACTORED) to_factors(values);
        store_tile<PASS>(values, slots + (t - OWN) * Layout::SLOT_SIZE);
    }
    __syncwarp();
}

// Calls add(t, tile, numbers, goes_on, ends) for each of the warp's tiles that are at work from target i: goes_on if
// the tile before is of the same slice and at work, ends if the next one isn't, so that the sum is to be sent.
template <int OWN, Pass PASS, int COUNT, typename Add>
__device__ void for_own_tiles(const WarpTiles<OWN, PASS>& owned, int i, const float* slots,
                              const float (&own)[OWN][COUNT], Add add) {
    const uint32_t at_work = owned.at_work(i);
    uint32_t going_on = owned.continuing(at_work);
    asm volatile("" : "+r"(going_on));  // not worked out anew for each tile
#pragma unroll
    for (int t = 0; t < OWN; ++t) {
        if (at_work & 1u << t)
            add(t, owned.tile(t), own[t], t > 0 && (going_on & 1u << t) != 0, (going_on & 2u << t) == 0);
    }
    if (OWN == 1) return;
    uint32_t bit = 1u << OWN;
    for (int t = OWN; t < owned.count; ++t, bit *= 2, slots += TileLayout<OWN, PASS>::SLOT_SIZE) {
        if ((at_work & bit) == 0) continue;
        float numbers[COUNT];
        read_slot(slots, numbers);
        add(t, owned.tile(t), numbers, (going_on & bit) != 0, (going_on & bit << 1) == 0);
    }
}

}  // namespace exlm
