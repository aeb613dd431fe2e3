// Records of tiles to elements: see docs/format.md. A block decodes four segments of one tile, one
// per warp: its slices, or the shorter segments of an index. Words and escapes beyond their ends
// read as zero, and the tile's status says what was wrong. One kernel handles all modes, so a batch
// is one launch.
#include "joined.cuh"

// Decodes a coded plane into memory.
__device__ void decode_plane(Stream& stream, Escapes& escapes, const Coded& coded, u32 mode, u8* plane, u32 begin,
                             u32 end) {
  const u32 lane = threadIdx.x % LANES;
  const u32 per_lane = mode == PAIRS ? 2 : 1;
  for (; begin < end; begin += per_lane * LANES) {
    const u32 element = begin + per_lane * lane;
    const bool active = element < end;
    const u32 symbol = stream.next_of(active);
    if (mode == PAIRS) {
      const u32 low = active ? symbol & 15 : 0, high = element + 1 < end ? symbol >> 4 : 0;
      u32 first = coded.palette[low], second = coded.palette[high];
      escapes.fill(low == 15, high == 15, first, second);
      if (active) plane[element] = (u8)first;
      if (element + 1 < end) plane[element + 1] = (u8)second;
    } else if (active) {
      plane[element] = (u8)symbol;
    }
    stream.advance();
  }
}

// The dword of a segment from `begin` to `end` whose planes are all available.
__device__ u32 join_word(u32 split, const Source* planes, u32 word, u32 begin, u32 end) {
  const u32 width = width_of(split);
  u32 joined = 0;
  if (width == 1) {
    for (u32 i = 0; i < 4; i++) {
      const u32 element = begin + 4 * word + i;
      if (element < end) joined |= planes[0].get(element) << (8 * i);
    }
  } else if (width == 2) {
    for (u32 i = 0; i < 2; i++) {
      const u32 element = begin + 2 * word + i;
      if (element < end) {
        const u32 high = planes[0].get(element), low = planes[1].get(element);
        joined |= (split == BRAIN ? brain(high, low) : high << 8 | low) << (16 * i);
      }
    }
  } else if (width == 4) {
    const u32 element = begin + word;
    const u32 high = split == FLOAT ? brain(planes[0].get(element), planes[1].get(element))
                                    : planes[0].get(element) << 8 | planes[1].get(element);
    joined = high << 16 | planes[2].get(element) << 8 | planes[3].get(element);
  } else {
    const u32 element = begin + word / 2;
    const u32 top = word % 2 ? 0 : 4;
    for (u32 i = 0; i < 4; i++) joined |= planes[top + 3 - i].get(element) << (8 * i);
  }
  return joined;
}

// How a tile is distributed over warps, and its entries in the index. In shared memory.
struct Segments {
  Slices slices;
  u32 len, per_slice, step, entries, entry_len;
  const u8* index;

  static __device__ __forceinline__ Segments of(const Job& job, const u8* packed, u32 n_coded) {
    const Slices slices = Slices::of(job.n);
    const u32 len = job.segment ? job.stride : max(slices.len, 1u), step = job.segment ? job.segment : len;
    return {slices,
            len,
            max((slices.len + len - 1) / len, 1u),
            step,
            (slices.len + step - 1) / step,
            4 * LANES + (u32)sizeof(Snapshot) * n_coded,
            job.segment ? packed + job.index : nullptr};
  }

  __device__ __forceinline__ bool are_indexed() const { return index != nullptr; }
  // With an index, the tile's hash is a separate part after those that decode.
  __device__ __forceinline__ bool is_sum(u32 segment) const { return index && segment >= per_slice * slices.count; }
  // The entry for the first `n` elements of a slice, where a segment ends.
  __device__ __forceinline__ const u32* lanes(u32 slice, u32 n) const {
    return reinterpret_cast<const u32*>(index + (u64)(slice * entries + (n - 1) / step) * entry_len);
  }
  __device__ __forceinline__ const Snapshot& snapshot(u32 slice, u32 n, u32 coded) const {
    return reinterpret_cast<const Snapshot*>(lanes(slice, n) + LANES)[coded];
  }
};

// The work of a warp: elements `begin..end` of the slice `first..last`.
struct Work {
  u32 slice, first, last, begin, end, is_here;

  static __device__ __forceinline__ Work of(const Segments& segments, u32 segment) {
    const u32 slice = min(segment / segments.per_slice, WARPS - 1);
    const u32 first = segments.slices.begin(slice), last = segments.slices.end(slice);
    const u32 begin = min(first + segment % segments.per_slice * segments.len, last),
              end = min(begin + segments.len, last);
    return {slice, first, last,
            begin, end,   segment / segments.per_slice < segments.slices.count && (begin < end || segment == 0)};
  }
};

// Spilled values are used once per plane, outside the loops.
// budget: 64 registers, 48 spill
extern "C" __global__ void __launch_bounds__(128, 8)
    rans_decode(const Job* jobs, const Part* parts, const u8* packed, u8* out, u8* scratch, i32* status) {
  __shared__ Ahead aheads[WARPS];
  __shared__ u32 lookup[M];
  __shared__ u32 uppers[256];
  __shared__ u32 sums[WARPS];
  __shared__ Plane planes[MAX_PLANES];
  __shared__ Source sources[MAX_PLANES];
  __shared__ Coded coded;
  __shared__ u32 hashes[WARPS * LANES];
  __shared__ i32 failure;
  __shared__ Job job;
  __shared__ Part part;
  __shared__ Segments segments;
  __shared__ Work works[WARPS];
  __shared__ u32 n_coded;

  if (threadIdx.x < sizeof(Job) / 4) {
    const Part mine = parts[blockIdx.x];
    reinterpret_cast<u32*>(&job)[threadIdx.x] = reinterpret_cast<const u32*>(jobs + mine.job)[threadIdx.x];
    if (threadIdx.x == 0) part = mine;
  }
  __syncthreads();
  const u8* record = packed + job.record;
  const u32 lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const u32 n_planes = width_of(job.split);
  if (16 * threadIdx.x < job.record_len) prefetch(record + 16 * threadIdx.x);
  if (threadIdx.x == 0) {
    n_coded = 0;
    for (u32 p = 0; p < n_planes; p++) n_coded += (job.modes >> (4 * p) & 15) >= BYTES;
    segments = Segments::of(job, packed, n_coded);
    failure = cut_planes(record, job, n_planes, planes) ? WHOLE : MALFORMED;
  }
  __syncthreads();

  if (lane == 0) works[warp] = Work::of(segments, part.first + warp);
  sync_warp();
  const Work& work = works[warp];
  u32 hash = segments.are_indexed() && work.is_here && work.begin > work.first
                 ? segments.lanes(work.slice, work.begin - work.first)[lane]
                 : 0;
  bool is_joined = false;

  // The last plane first: the coded plane needs the planes it is joined with.
  for (u32 i = 0, coded_left = n_coded; i < n_planes && failure == WHOLE && !segments.is_sum(part.first); i++) {
    const u32 p = n_planes - 1 - i;
    const Plane plane = planes[p];
    if (plane.mode < BYTES) {
      if (threadIdx.x == 0) {
        sources[p].bytes = plane.mode == RAW ? record + plane.at : nullptr;
        sources[p].constant = plane.mode == CONSTANT ? record[plane.at] : 0;
      }
      __syncthreads();
      continue;
    }
    coded_left--;
    if (threadIdx.x == 0 && !cut_table(record, plane, segments.slices, coded)) failure = MALFORMED;
    __syncthreads();
    if (failure != WHOLE) break;
    const u32 table_len = fill_lookup(record, coded, lookup, sums);
    if (threadIdx.x == 0 && (table_len == 0 || !cut_streams(record, plane, segments.slices, table_len, coded)))
      failure = MALFORMED;
    is_joined = n_planes == 2 && n_coded == 1 && p == 0;
    const Halves halves(job.split);
    if (is_joined && plane.mode == PAIRS) {
      for (u32 symbol = threadIdx.x; symbol < 256; symbol += WARPS * LANES) {
        const u32 low = symbol & 15, high = symbol >> 4;
        const u32 lower = low < 15 ? coded.palette[low] : 0, upper = high < 15 ? coded.palette[high] : 0;
        uppers[symbol] = halves.upper(lower, upper) | (low == 15) | (u32)(high == 15) << 16;
      }
    }
    __syncthreads();
    if (failure != WHOLE) break;
    bool is_right = true;
    if (work.is_here) {
      Stream stream(record, coded, work.slice, lookup, aheads[warp].words);
      Escapes escapes = {record + coded.escapes_at[work.slice], coded.n_escapes[work.slice], 0};
      if (segments.are_indexed() && work.begin > work.first) {
        const Snapshot& from = segments.snapshot(work.slice, work.begin - work.first, coded_left);
        stream.resume(from);
        escapes.at = from.escapes;
      }
      is_right = stream.is_valid() && escapes.at <= escapes.n;
      if (ballot(FULL_WARP, is_right) == FULL_WARP) {
        stream.begin();
        if (is_joined) {
          Joined joined = {stream, escapes, sources[1], aheads[warp], halves, hash};
          const Output output(out, job);
          u32 done = work.begin;
          if (output.is_wide()) {
            const Cursor cursor(output, 2 * work.begin);
            done = plane.mode == PAIRS ? joined.pairs(uppers, cursor, work.begin, work.end)
                                       : joined.bytes(cursor, work.begin, work.end);
          }
          cp_async_wait<0>();
          sync_warp();
          joined.rest(plane.mode, coded, output, done, work.end);
          hash = joined.hash;
        } else {
          decode_plane(stream, escapes, coded, plane.mode, scratch + job.scratch + (u64)p * job.n, work.begin,
                       work.end);
        }
        if (segments.are_indexed()) {
          const Snapshot& to = segments.snapshot(work.slice, work.end - work.first, coded_left);
          is_right = stream.is_at(to) && escapes.at == to.escapes;
        }
        if (work.end == work.last) is_right = is_right && stream.is_finished() && escapes.at == escapes.n;
      }
    }
    __syncthreads();
    if (!is_right) failure = STREAM;
    if (threadIdx.x == 0) sources[p].bytes = scratch + job.scratch + (u64)p * job.n;
    __syncthreads();
  }

  if (failure == WHOLE && !is_joined && work.is_here) {
    const Output output(out, job);
    const u32 len = (work.end - work.begin) * n_planes;
    for (u32 word = lane; 4 * word < len; word += LANES) {
      const u32 joined = join_word(job.split, sources, word, work.begin, work.end);
      hash = hash_step(hash, joined);
      output.store(work.begin * n_planes + 4 * word, joined, min(len - 4 * word, 4u));
    }
  }
  hashes[threadIdx.x] = hash;
  const bool is_other =
      segments.are_indexed() && work.is_here && hash != segments.lanes(work.slice, work.end - work.first)[lane];
  __syncthreads();
  if (is_other && failure == WHOLE) failure = HASH;
  __syncthreads();
  if (threadIdx.x == 0) {
    i32 outcome = failure;
    if (outcome == WHOLE && (segments.is_sum(part.first) || !segments.are_indexed())) {
      u64 folded = fold_step(fold_step(0, job.number), (u64)job.n * n_planes);
      for (u32 s = 0; s < segments.slices.count; s++) {
        const u32 n = segments.slices.end(s) - segments.slices.begin(s);
        const u32* lanes = segments.are_indexed() ? segments.lanes(s, n) : hashes + s * LANES;
#pragma unroll 8
        for (u32 i = 0; i < LANES; i++) folded = fold_step(folded, lanes[i]);
      }
      if (folded != job.hash) outcome = HASH;
    }
    if (outcome != WHOLE) atomicMax(status + part.job, (i32)outcome);
  }
}
