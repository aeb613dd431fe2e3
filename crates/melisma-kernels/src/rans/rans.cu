// Records of tiles to elements: see docs/format.md. A block decodes one tile, a warp one of its slices. Nothing in a
// record is trusted: every offset is checked before it is used, words and escapes beyond their ends read as zero, and
// the tile's status tells what was wrong.
// More than 400 lines because all modes of the one decode kernel share its checks and its record layout.
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
    u64 record, out, scratch, number, hash, row_step;
    u32 record_len, n, modes, split, row_len, unused;
};

// Where a plane's parts are in the record.
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
    __device__ __forceinline__ explicit Slices(u32 n) : n(n) {
        count = n < 0x8000u ? 1 : n < 0x20000u ? 2 : 4;
        const u32 part = (n + count - 1) / count;
        len = count == 1 ? n : (part + 63) / 64 * 64;
    }
    __device__ __forceinline__ u32 begin(u32 slice) const { return min(slice * len, n); }
    __device__ __forceinline__ u32 end(u32 slice) const { return min((slice + 1) * len, n); }
};

__device__ __forceinline__ u32 width_of(u32 split) {
    return split == BYTES1 ? 1 : split == BYTES2 || split == BRAIN ? 2 : split == BYTES8 ? 8 : 4;
}

__device__ __forceinline__ u32 load_u32(const u8* from) { return *reinterpret_cast<const u32*>(from); }

__device__ __forceinline__ u64 padded(u64 len) { return (len + 15) / 16 * 16; }

// Cuts the record into planes; false when they do not fill it.
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
        for (u32 i = 0; i < 16; i++) coded.palette[i] = record[plane.at + at + i];
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

// Reads the frequency table and fills the slots. Returns the table's length, 0 when it is wrong.
__device__ u32 fill_lookup(const u8* record, const Coded& coded, u32* lookup, u32* frequencies, u32* sums) {
    const u8* table = record + coded.table_at;
    const u32 lengths = table[threadIdx.x];
    u32 total;
    u32 low_bits[2];
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
        u32 f = 0;
        if (length > 0 && length <= 12 && fits) {
            u32 window = 0;
            for (u32 b = 0; b < 3; b++) {
                const u32 at = 128 + bit / 8 + b;
                if (at < table_len) window |= (u32)table[at] << (8 * b);
            }
            f = 1u << low_bits[i] | (window >> (bit % 8) & ((1u << low_bits[i]) - 1));
        }
        bit += low_bits[i];
        // A length above 12 spoils the sum.
        sum += length > 12 ? 2 * M : f;
        frequencies[2 * threadIdx.x + i] = f;
    }
    u32 all;
    const u32 start = scan(sum, sums, all);
    frequencies[256 + threadIdx.x] = start;
    __syncthreads();
    if (!fits || all != M) return 0;
    // Two symbols share a start; a warp fills one symbol's slots together.
    for (u32 symbol = threadIdx.x / LANES; symbol < 256; symbol += WARPS) {
        const u32 f = frequencies[symbol];
        const u32 first = frequencies[256 + symbol / 2] + (symbol % 2 ? frequencies[symbol - 1] : 0);
        for (u32 offset = threadIdx.x % LANES; offset < f; offset += LANES) {
            lookup[first + offset] = f << 20 | offset << 8 | symbol;
        }
    }
    __syncthreads();
    return table_len;
}

// One stream, as a warp reads it: a state for each lane.
struct Stream {
    const u32* lookup;
    const u16* words;
    u32 n_words, at, state;

    __device__ __forceinline__ Stream(const u8* record, const Coded& coded, u32 slice, const u32* lookup)
        : lookup(lookup), words(reinterpret_cast<const u16*>(record + coded.words_at[slice])),
          n_words(coded.n_words[slice]), at(0),
          state(load_u32(record + coded.states_at + 128 * slice + 4 * (threadIdx.x % LANES))) {}

    __device__ __forceinline__ bool is_valid() const { return state >= LOW && state < 1u << 31; }

    // The next symbol of this lane, if it has one; all lanes call this together.
    __device__ __forceinline__ u32 next(bool active) {
        const u32 entry = lookup[state % M];
        const u32 x = (entry >> 20) * (state / M) + (entry >> 8) % M;
        const bool refill = active && x < LOW;
        const u32 mask = ballot(FULL_WARP, refill);
        if (refill) {
            const u32 index = at + popc(mask & ((1u << (threadIdx.x % LANES)) - 1));
            state = x << 16 | (index < n_words ? words[index] : 0);
        } else if (active) {
            state = x;
        }
        at += popc(mask);
        return entry & 255;
    }

    __device__ __forceinline__ bool is_finished() const { return state == LOW && at == n_words; }
};

// Escaped bytes in order.
struct Escapes {
    const u8* bytes;
    u32 n, at;

    // Replaces the entries of nibbles that are 15; `odd` is whether the second one exists.
    __device__ __forceinline__ void fill(u32 low, u32 high, bool odd, u32& first, u32& second) {
        const u32 of_low = ballot(FULL_WARP, low == 15);
        const u32 of_high = ballot(FULL_WARP, odd && high == 15);
        if (of_low | of_high) {
            const u32 before = (1u << (threadIdx.x % LANES)) - 1;
            const u32 index = at + popc(of_low & before) + popc(of_high & before);
            if (low == 15) first = index < n ? bytes[index] : 0;
            const u32 next = index + (low == 15);
            if (odd && high == 15) second = next < n ? bytes[next] : 0;
            at += popc(of_low) + popc(of_high);
        }
    }
};

// A dword of the decoded tile on its way out.
struct Output {
    u8* out;
    u64 row_step;
    u32 row_len;
    bool by_words;

    __device__ __forceinline__ Output(u8* out, const Job& job)
        : out(out + job.out), row_step(job.row_step), row_len(job.row_len),
          by_words(job.row_len % 4 == 0 && job.row_step % 4 == 0) {}

    // `byte` is a multiple of 4 within the tile; the first `count` bytes of `word` exist.
    __device__ __forceinline__ void store(u32 byte, u32 word, u32 count) const {
        if (by_words && count == 4) {
            const u32 row = byte / row_len;
            *reinterpret_cast<u32*>(out + row * row_step + (byte - row * row_len)) = word;
            return;
        }
        for (u32 i = 0; i < count; i++) {
            const u32 row = (byte + i) / row_len;
            out[row * row_step + (byte + i - row * row_len)] = (u8)(word >> (8 * i));
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

__device__ __forceinline__ u32 brain(u32 exponent, u32 rest) {
    return (rest & 0x80) << 8 | exponent << 7 | (rest & 0x7f);
}

// Two neighbouring elements of 16 bits.
__device__ __forceinline__ u32 join_two(u32 split, u32 high_0, u32 high_1, u32 low_0, u32 low_1) {
    if (split == BRAIN) return brain(high_0, low_0) | brain(high_1, low_1) << 16;
    return low_0 | high_0 << 8 | low_1 << 16 | high_1 << 24;
}

// A plane's bytes, once it is decoded.
struct Source {
    const u8* bytes;
    u32 constant;
    __device__ __forceinline__ u32 get(u32 index) const { return bytes ? bytes[index] : constant; }
};

// The dword of a tile whose planes are all at hand.
__device__ u32 join_word(u32 split, const Source* planes, u32 n, u32 word, u32 first) {
    const u32 width = width_of(split);
    u32 joined = 0;
    if (width == 1) {
        for (u32 i = 0; i < 4; i++) {
            const u32 element = first + 4 * word + i;
            if (element < n) joined |= planes[0].get(element) << (8 * i);
        }
    } else if (width == 2) {
        for (u32 i = 0; i < 2; i++) {
            const u32 element = first + 2 * word + i;
            if (element < n) {
                const u32 high = planes[0].get(element), low = planes[1].get(element);
                joined |= (split == BRAIN ? brain(high, low) : high << 8 | low) << (16 * i);
            }
        }
    } else if (width == 4) {
        const u32 element = first + word;
        const u32 high = split == FLOAT ? brain(planes[0].get(element), planes[1].get(element))
                                        : planes[0].get(element) << 8 | planes[1].get(element);
        joined = high << 16 | planes[2].get(element) << 8 | planes[3].get(element);
    } else {
        const u32 element = first + word / 2;
        const u32 top = word % 2 ? 0 : 4;
        for (u32 i = 0; i < 4; i++) joined |= planes[top + 3 - i].get(element) << (8 * i);
    }
    return joined;
}

// The coded plane 0 of 16-bit elements, joined with the other as it is decoded; returns the lane's hash.
__device__ u32 decode_joined(Stream& stream, Escapes& escapes, const Coded& coded, u32 mode, u32 split,
                             const Source& other, const Output& output, u32 begin, u32 end) {
    const u32 lane = threadIdx.x % LANES;
    const u32 n = end - begin;
    u32 hash = 0;
    for (u32 first = 0; first < n; first += 2 * LANES) {
        const u32 element = first + 2 * lane;
        u32 high_0, high_1;
        if (mode == PAIRS) {
            const bool active = element < n;
            const u32 symbol = stream.next(active);
            const u32 low = active ? symbol & 15 : 0, high = active ? symbol >> 4 : 0;
            high_0 = coded.palette[low];
            high_1 = coded.palette[high];
            escapes.fill(low, high, element + 1 < n, high_0, high_1);
        } else {
            // A lane's two elements were decoded by two lanes of one step: the first step's go to lanes 0 to 15.
            const u32 a = stream.next(first + lane < n);
            const u32 b = first + LANES < n ? stream.next(first + LANES + lane < n) : 0;
            const u32 from = 2 * (lane % 16);
            const u32 a_0 = shfl_idx(FULL_WARP, a, from), a_1 = shfl_idx(FULL_WARP, a, from + 1);
            const u32 b_0 = shfl_idx(FULL_WARP, b, from), b_1 = shfl_idx(FULL_WARP, b, from + 1);
            high_0 = lane < 16 ? a_0 : b_0;
            high_1 = lane < 16 ? a_1 : b_1;
        }
        if (element < n) {
            const bool both = element + 1 < n;
            const u32 low_0 = other.get(begin + element), low_1 = both ? other.get(begin + element + 1) : 0;
            u32 word = join_two(split, high_0, high_1, low_0, low_1);
            if (!both) word &= 0xffff;
            hash = hash_step(hash, word);
            output.store(2 * (begin + element), word, both ? 4 : 2);
        }
    }
    return hash;
}

// A coded plane into memory.
__device__ void decode_plane(Stream& stream, Escapes& escapes, const Coded& coded, u32 mode, u8* plane, u32 begin, u32 end) {
    const u32 lane = threadIdx.x % LANES;
    const u32 n = end - begin;
    const u32 per_lane = mode == PAIRS ? 2 : 1;
    for (u32 first = 0; first < n; first += per_lane * LANES) {
        const u32 element = first + per_lane * lane;
        const bool active = element < n;
        const u32 symbol = stream.next(active);
        if (mode == PAIRS) {
            const u32 low = active ? symbol & 15 : 0, high = active ? symbol >> 4 : 0;
            u32 byte_0 = coded.palette[low], byte_1 = coded.palette[high];
            escapes.fill(low, high, element + 1 < n, byte_0, byte_1);
            if (active) plane[begin + element] = (u8)byte_0;
            if (element + 1 < n) plane[begin + element + 1] = (u8)byte_1;
        } else if (active) {
            plane[begin + element] = (u8)symbol;
        }
    }
}

// budget: 64 registers, 0 spill
extern "C" __global__ void __launch_bounds__(128) rans_decode(const Job* jobs, const u8* packed, u8* out, u8* scratch, i32* status) {
    __shared__ u32 lookup[M];
    __shared__ u32 frequencies[384];
    __shared__ u32 sums[WARPS];
    __shared__ Plane planes[MAX_PLANES];
    __shared__ Source sources[MAX_PLANES];
    __shared__ Coded coded;
    __shared__ u32 hashes[WARPS * LANES];
    __shared__ i32 failure;

    const Job job = jobs[blockIdx.x];
    const u8* record = packed + job.record;
    const u32 lane = threadIdx.x % LANES, slice = threadIdx.x / LANES;
    const u32 n_planes = width_of(job.split);
    const Slices slices(job.n);
    const u32 begin = slices.begin(slice), end = slices.end(slice);
    const Output output(out, job);
    u32 hash = 0;
    bool is_joined = false;

    if (threadIdx.x == 0) failure = cut_planes(record, job, n_planes, planes) ? WHOLE : MALFORMED;
    __syncthreads();
    u32 n_coded = 0;
    for (u32 p = 0; failure == WHOLE && p < n_planes; p++) n_coded += planes[p].mode >= BYTES;

    // Planes with the coded one first where it is to be joined with what it needs.
    for (u32 i = 0; i < n_planes && failure == WHOLE; i++) {
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
        if (threadIdx.x == 0 && !cut_table(record, plane, slices, coded)) failure = MALFORMED;
        __syncthreads();
        if (failure != WHOLE) break;
        const u32 table_len = fill_lookup(record, coded, lookup, frequencies, sums);
        if (threadIdx.x == 0 && (table_len == 0 || !cut_streams(record, plane, slices, table_len, coded))) failure = MALFORMED;
        __syncthreads();
        if (failure != WHOLE) break;
        is_joined = n_planes == 2 && n_coded == 1 && p == 0;
        bool is_right = true;
        if (slice < slices.count) {
            Stream stream(record, coded, slice, lookup);
            Escapes escapes = {record + coded.escapes_at[slice], coded.n_escapes[slice], 0};
            is_right = stream.is_valid();
            if (ballot(FULL_WARP, is_right) == FULL_WARP) {
                if (is_joined) {
                    hash = decode_joined(stream, escapes, coded, plane.mode, job.split, sources[1], output, begin, end);
                } else {
                    decode_plane(stream, escapes, coded, plane.mode, scratch + job.scratch + (u64)p * job.n, begin, end);
                }
                is_right = stream.is_finished() && escapes.at == escapes.n;
            }
        }
        __syncthreads();
        if (!is_right) failure = STREAM;
        if (threadIdx.x == 0) sources[p].bytes = scratch + job.scratch + (u64)p * job.n;
        __syncthreads();
    }

    if (failure == WHOLE && !is_joined && slice < slices.count) {
        const u32 len = (end - begin) * n_planes;
        for (u32 word = lane; 4 * word < len; word += LANES) {
            const u32 joined = join_word(job.split, sources, end, word, begin);
            hash = hash_step(hash, joined);
            output.store(begin * n_planes + 4 * word, joined, min(len - 4 * word, 4u));
        }
    }
    hashes[threadIdx.x] = hash;
    __syncthreads();
    if (threadIdx.x == 0) {
        i32 outcome = failure;
        if (outcome == WHOLE) {
            u64 folded = fold_step(fold_step(0, job.number), (u64)job.n * n_planes);
            for (u32 i = 0; i < LANES * slices.count; i++) folded = fold_step(folded, hashes[i]);
            if (folded != job.hash) outcome = HASH;
        }
        status[blockIdx.x] = outcome;
    }
}
