// A tile's record and the tables made from it. Records are untrusted: every offset is checked
// before it is used.
#pragma once
#include "device.cuh"

constexpr u32 LANES = 32;
constexpr u32 WARPS = 4;
constexpr u32 LOW = 1u << 15;
constexpr u32 M = 4096;
constexpr u32 MAX_PLANES = 8;

enum Status : i32 { WHOLE = 0, MALFORMED = 1, STREAM = 2, HASH = 3 };
enum Mode : u32 { RAW = 0, CONSTANT = 1, BYTES = 2, PAIRS = 3 };
enum Split : u32 { BYTES1 = 0, BYTES2 = 1, BYTES4 = 2, BYTES8 = 3, BRAIN = 4, FLOAT = 5 };

struct Job {
  u64 record, out, scratch, number, hash, row_step, index;
  // `segment`: elements between two snapshots of the index; 0 without one. `stride`: elements that a warp decodes.
  u32 record_len, n, modes, split, row_len, segment, stride, unused;
};

// The segments of a job that a block decodes: `first` and the following ones, one per warp.
struct Part {
  u32 job, first;
};

// The place of a plane's parts in the record.
struct Plane {
  u32 mode, at, len;
};

struct Coded {
  u32 states_at, table_at, table_len;
  u32 words_at[WARPS], n_words[WARPS], escapes_at[WARPS], n_escapes[WARPS];
  u8 palette[16];
};

struct Slices {
  u32 count, len, n;
  static __device__ __forceinline__ Slices of(u32 n) {
    const u32 count = n < 0x8000u ? 1 : n < 0x20000u ? 2 : 4;
    const u32 part = (n + count - 1) / count;
    return {count, count == 1 ? n : (part + 63) / 64 * 64, n};
  }
  __device__ __forceinline__ u32 begin(u32 slice) const { return min(slice * len, n); }
  __device__ __forceinline__ u32 end(u32 slice) const { return min((slice + 1) * len, n); }
};

__device__ __forceinline__ u32 width_of(u32 split) {
  return split == BYTES1 ? 1 : split == BYTES2 || split == BRAIN ? 2 : split == BYTES8 ? 8 : 4;
}

__device__ __forceinline__ u32 load_u32(const u8* from) { return *reinterpret_cast<const u32*>(from); }

__device__ __forceinline__ u64 padded(u64 len) { return (len + 15) / 16 * 16; }

// Cuts the record into planes; returns false if they do not fill it.
__device__ bool cut_planes(const u8* record, const Job& job, u32 n_planes, Plane* planes) {
  u64 at = padded(4 * n_planes);
  if (at > job.record_len) return false;
  for (u32 p = 0; p < n_planes; p++) {
    planes[p].mode = job.modes >> (4 * p) & 15;
    planes[p].at = (u32)at;
    planes[p].len = load_u32(record + 4 * p);
    at += padded(planes[p].len);
    if (planes[p].mode > PAIRS || at > job.record_len) return false;
    if (planes[p].mode == RAW && planes[p].len != job.n) return false;
    if (planes[p].mode == CONSTANT && planes[p].len != 1) return false;
  }
  return at == job.record_len;
}

// Cuts a coded plane up to its table; `cut_streams` does the rest once the table's length is known.
__device__ bool cut_table(const u8* record, const Plane& plane, const Slices& slices, Coded& coded) {
  u64 at = padded(8 * slices.count);
  if (at + 16 > plane.len) return false;
  if (plane.mode == PAIRS) {
    for (u32 i = 0; i < 16; i += 4) *reinterpret_cast<u32*>(coded.palette + i) = load_u32(record + plane.at + at + i);
    at += 16;
  }
  if (at + 128 > plane.len) return false;
  coded.table_at = plane.at + (u32)at;
  coded.table_len = plane.len - (u32)at;
  return true;
}

__device__ bool cut_streams(const u8* record, const Plane& plane, const Slices& slices, u32 table_len, Coded& coded) {
  const u64 end = (u64)plane.at + plane.len;
  u64 at = coded.table_at + padded(table_len);
  coded.states_at = (u32)at;
  at += 128 * slices.count;
  if (at > end) return false;
  for (u32 s = 0; s < slices.count; s++) {
    coded.words_at[s] = (u32)at;
    coded.n_words[s] = load_u32(record + plane.at + 8 * s);
    coded.n_escapes[s] = load_u32(record + plane.at + 8 * s + 4);
    at += padded(2 * (u64)coded.n_words[s]);
    if (at > end) return false;
  }
  u64 n_escapes = 0;
  for (u32 s = 0; s < slices.count; s++) {
    coded.escapes_at[s] = (u32)(at + n_escapes);
    n_escapes += coded.n_escapes[s];
    if (at + n_escapes > end) return false;
  }
  return at + padded(n_escapes) == end;
}

// The sum of `value` over all threads before this one, and over all of them. Every thread of the block takes part.
__device__ u32 scan(u32 value, u32* sums, u32& total) {
  const u32 lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  u32 sum = value;
#pragma unroll
  for (u32 delta = 1; delta < LANES; delta *= 2) {
    const u32 other = shfl_up(FULL_WARP, sum, delta);
    if (lane >= delta) sum += other;
  }
  __syncthreads();
  if (lane == LANES - 1) sums[warp] = sum;
  __syncthreads();
  u32 before = 0;
  total = 0;
  for (u32 w = 0; w < WARPS; w++) {
    if (w < warp) before += sums[w];
    total += sums[w];
  }
  return before + sum - value;
}

// A warp fills symbols with more slots than this together; one lane each fills the others.
constexpr u32 FEW_SLOTS = 12;

// Reads the frequency table and fills the slots with `f << 20 | symbol << 12 | offset`. Returns the
// table's length, or 0 if the table is wrong.
__device__ u32 fill_lookup(const u8* record, const Coded& coded, u32* lookup, u32* sums) {
  const u8* table = record + coded.table_at;
  const u32 lane = threadIdx.x % LANES;
  const u32 lengths = table[threadIdx.x];
  u32 total, f[2], low_bits[2];
  for (u32 i = 0; i < 2; i++) {
    const u32 length = lengths >> (4 * i) & 15;
    low_bits[i] = length > 0 ? length - 1 : 0;
  }
  u32 bit = scan(low_bits[0] + low_bits[1], sums, total);
  const u32 table_len = 128 + (total + 7) / 8;
  const bool fits = table_len <= coded.table_len;
  u32 sum = 0;
  for (u32 i = 0; i < 2; i++) {
    const u32 length = lengths >> (4 * i) & 15;
    f[i] = 0;
    if (length > 0 && length <= 12 && fits) {
      u32 window = 0;
      for (u32 b = 0; b < 3; b++) {
        const u32 at = 128 + bit / 8 + b;
        if (at < table_len) window |= (u32)table[at] << (8 * b);
      }
      f[i] = 1u << low_bits[i] | (window >> (bit % 8) & ((1u << low_bits[i]) - 1));
    }
    bit += low_bits[i];
    // A length above 12 makes the sum wrong.
    sum += length > 12 ? 2 * M : f[i];
  }
  u32 all;
  const u32 start = scan(sum, sums, all);
  if (!fits || all != M) return 0;
  for (u32 i = 0; i < 2; i++) {
    const u32 first = start + (i ? f[0] : 0), entry = f[i] << 20 | (2 * threadIdx.x + i) << 12;
    if (f[i] <= FEW_SLOTS) {
      for (u32 offset = 0; offset < f[i]; offset++) lookup[first + offset] = entry | offset;
    }
    for (u32 many = ballot(FULL_WARP, f[i] > FEW_SLOTS); many; many &= many - 1) {
      const u32 of = 31 - clz(many & (0 - many));
      const u32 its_first = shfl_idx(FULL_WARP, first, of), its_entry = shfl_idx(FULL_WARP, entry, of);
      for (u32 offset = lane; offset < its_entry >> 20; offset += LANES) {
        lookup[its_first + offset] = its_entry | offset;
      }
    }
  }
  __syncthreads();
  return table_len;
}
