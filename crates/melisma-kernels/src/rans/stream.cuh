// The inputs of a warp: one stream of states and words, prefetched into shared memory, and escaped
// bytes.
#pragma once
#include "record.cuh"

// Prefetched data of a warp in shared memory. Words are in four quarters of a ring: a batch of four
// steps consumes at most one quarter and reads from two, while the next two are in flight. Bytes of
// the other plane are in four slots, one per batch.
constexpr u32 QUARTER = 128;
constexpr u32 RING = 4 * QUARTER;
constexpr u32 SLOT = 256;
struct __align__(1024) Ahead {
  u16 words[RING];
  u8 lower[4 * SLOT];
};

// The start or end of a segment, as the index stores it: the hash's lanes, then this for each coded
// plane.
struct Snapshot {
  u32 words, escapes, zero[2], states[LANES];
};

// One stream, as a warp reads it: one state per lane.
struct Stream {
  const u32* lookup;
  u16* ring;
  const u8* words;
  u32 n_words, at, state, quarter, before;

  __device__ __forceinline__ Stream(const u8* record, const Coded& coded, u32 slice, const u32* lookup, u16* ring)
      : lookup(lookup),
        ring(ring),
        words(record + coded.words_at[slice]),
        n_words(coded.n_words[slice]),
        at(0),
        state(load_u32(record + coded.states_at + 128 * slice + 4 * (threadIdx.x % LANES))),
        quarter(0),
        before((1u << (threadIdx.x % LANES)) - 1) {}

  // Resumes from the snapshot `from`.
  __device__ __forceinline__ void resume(const Snapshot& from) {
    at = from.words;
    state = from.states[threadIdx.x % LANES];
  }

  __device__ __forceinline__ bool is_valid() const { return state >= LOW && state < 1u << 31 && at <= n_words; }

  __device__ __forceinline__ void load(u32 part) {
    const u32 lane = threadIdx.x % LANES;
    if (lane < 16) {
      const u32 from = part * (2 * QUARTER) + 16 * lane;
      const u32 bytes = 2 * n_words > from ? min(2 * n_words - from, 16u) : 0;
      cp_async_16(ring + part % 4 * QUARTER + 8 * lane, bytes ? words + from : words, bytes);
    }
  }

  // Loads the first words.
  __device__ __forceinline__ void begin() {
    quarter = at / QUARTER;
    for (u32 part = 0; part < 4; part++) load(quarter + part);
    cp_async_commit();
    cp_async_wait<0>();
    sync_warp();
  }

  // Called after at most four steps.
  __device__ __forceinline__ void advance() {
    if (at / QUARTER != quarter) {
      sync_warp();
      load(quarter++ + 4);
      cp_async_commit();
      cp_async_wait<0>();
      sync_warp();
    }
  }

  // The next entry of every lane: its symbol, with other bits above and below it.
  __device__ __forceinline__ u32 next() {
    const u32 entry = lookup[state % M];
    const u32 x = (entry >> 20) * (state / M) + entry % M;
    const u32 mask = ballot(FULL_WARP, x < LOW);
    // Every lane reads, so that none branches.
    const u32 refilled = x << 16 | ring[(at + popc(mask & before)) % RING];
    state = x < LOW ? refilled : x;
    at += popc(mask);
    return entry;
  }

  // The next symbol of the active lanes.
  __device__ __forceinline__ u32 next_of(bool active) {
    const u32 entry = lookup[state % M];
    const u32 x = (entry >> 20) * (state / M) + entry % M;
    const bool refill = active && x < LOW;
    const u32 mask = ballot(FULL_WARP, refill);
    if (refill)
      state = x << 16 | ring[(at + popc(mask & before)) % RING];
    else if (active)
      state = x;
    at += popc(mask);
    return entry >> 12 & 255;
  }

  __device__ __forceinline__ bool is_at(const Snapshot& end) const {
    return at == end.words && state == end.states[threadIdx.x % LANES];
  }

  __device__ __forceinline__ bool is_finished() const { return state == LOW && at == n_words; }
};

// Prefetches both planes of a joined decoder with one copy per batch: lanes 0 to 15 load the other
// plane's bytes for the batch after the next two; lanes 16 to 31 load a quarter of words when one
// was consumed.
struct Feeder {
  const u8* from;
  u8* to;
  u32 left, count;

  // `lower` is null if the other plane is constant.
  __device__ __forceinline__ Feeder(const Stream& stream, Ahead& ahead, const u8* lower, u32 n) : count(0) {
    const u32 lane = threadIdx.x % LANES, skipped = 2 * QUARTER * (stream.quarter + 4) + 16 * (lane - 16);
    if (lane < 16) {
      from = lower + 16 * lane;
      to = ahead.lower + 16 * lane;
      left = lower && n > 16 * lane ? n - 16 * lane : 0;
    } else {
      from = stream.words + skipped;
      to = reinterpret_cast<u8*>(ahead.words) + 16 * (lane - 16);
      left = 2 * stream.n_words > skipped ? 2 * stream.n_words - skipped : 0;
      count = stream.quarter;
    }
  }

  __device__ __forceinline__ void copy(u32 step) {
    cp_async_16(to + count % 4 * SLOT, from, min(left, 16u));
    from += step;
    left -= min(left, step);
    count++;
  }

  template <u32 ELEMENTS>
  __device__ __forceinline__ void begin() {
    if (threadIdx.x % LANES < ELEMENTS / 16) {
      for (u32 i = 0; i < 3; i++)
        if (left) copy(ELEMENTS);
    }
    cp_async_commit();
    cp_async_wait<0>();
    sync_warp();
  }

  // All lanes must have synchronised after their last step.
  template <u32 ELEMENTS>
  __device__ __forceinline__ void next(Stream& stream) {
    const u32 lane = threadIdx.x % LANES;
    const bool is_left = stream.at / QUARTER != stream.quarter;
    if (lane < 16 ? left > 0 && lane < ELEMENTS / 16 : is_left) copy(lane < 16 ? ELEMENTS : 2 * QUARTER);
    stream.quarter += is_left;
    cp_async_commit();
    cp_async_wait<2>();
    sync_warp();
  }
};

// Escaped bytes in order.
struct Escapes {
  const u8* bytes;
  u32 n, at;

  __device__ __forceinline__ u32 get(u32 index) const { return index < n ? bytes[index] : 0; }

  // Replaces a lane's two elements where they are escapes.
  __device__ __forceinline__ void fill(bool low, bool high, u32& first, u32& second) {
    const u32 of_low = ballot(FULL_WARP, low), of_high = ballot(FULL_WARP, high);
    if (of_low | of_high) {
      const u32 before = (1u << (threadIdx.x % LANES)) - 1;
      const u32 index = at + popc(of_low & before) + popc(of_high & before);
      if (low) first = get(index);
      if (high) second = get(index + low);
      at += popc(of_low) + popc(of_high);
    }
  }
};

__device__ __forceinline__ u32 hash_step(u32 h, u32 word) {
  const u32 t = (h ^ word) * 0x9e3779b1u;
  return t ^ t >> 15;
}

__device__ __forceinline__ u64 fold_step(u64 h, u64 value) {
  const u64 t = (h ^ value) * 0x9e3779b97f4a7c15ull;
  return t ^ t >> 32;
}
