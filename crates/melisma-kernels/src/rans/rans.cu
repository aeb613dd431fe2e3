// Records of tiles to elements: see docs/format.md. A block decodes four segments of one tile, a warp each: its slices,
// or the shorter segments of an index. Words and escapes beyond their ends read as zero, and the tile's status tells what
// was wrong. More than 400 lines because all modes are one kernel, so that a batch is one launch.
#include "record.cuh"

// What a warp has ahead in shared memory. Words lie in four quarters of a ring: a batch of four steps takes at most one
// quarter of them and reads from two, while the next two are on their way. Bytes of the other plane lie in four slots, one
// for each batch.
constexpr u32 QUARTER = 128;
constexpr u32 RING = 4 * QUARTER;
constexpr u32 SLOT = 256;
struct __align__(1024) Ahead {
    u16 words[RING];
    u8 lower[4 * SLOT];
};

// Where a segment begins or ends, as the index stores it: the hash's lanes, then this for each coded plane.
struct Snapshot {
    u32 words, escapes, zero[2], states[LANES];
};

// One stream, as a warp reads it: a state for each lane.
struct Stream {
    const u32* lookup;
    u16* ring;
    const u8* words;
    u32 n_words, at, state, quarter, before;

    __device__ __forceinline__ Stream(const u8* record, const Coded& coded, u32 slice, const u32* lookup, u16* ring)
        : lookup(lookup), ring(ring), words(record + coded.words_at[slice]), n_words(coded.n_words[slice]), at(0),
          state(load_u32(record + coded.states_at + 128 * slice + 4 * (threadIdx.x % LANES))), quarter(0),
          before((1u << (threadIdx.x % LANES)) - 1) {}

    // Continues where `from` was taken.
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

    // After at most four steps.
    __device__ __forceinline__ void advance() {
        if (at / QUARTER != quarter) {
            sync_warp();
            load(quarter++ + 4);
            cp_async_commit();
            cp_async_wait<0>();
            sync_warp();
        }
    }

    // The next entry of every lane: its symbol, and more above and below it.
    __device__ __forceinline__ u32 next() {
        const u32 entry = lookup[state % M];
        const u32 x = (entry >> 20) * (state / M) + entry % M;
        const u32 mask = ballot(FULL_WARP, x < LOW);
        // Read by all, so that nobody branches.
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
        if (refill) state = x << 16 | ring[(at + popc(mask & before)) % RING];
        else if (active) state = x;
        at += popc(mask);
        return entry >> 12 & 255;
    }

    __device__ __forceinline__ bool is_at(const Snapshot& end) const {
        return at == end.words && state == end.states[threadIdx.x % LANES];
    }

    __device__ __forceinline__ bool is_finished() const { return state == LOW && at == n_words; }
};

// Keeps both planes of a joined decoder ahead, with one copy for each batch: lanes 0 to 15 bring the other plane's bytes
// of the batch after the next two, lanes 16 to 31 a quarter of words where one was left.
struct Feeder {
    const u8* from;
    u8* to;
    u32 left, count;

    // `lower` is null where the other plane is constant.
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
            for (u32 i = 0; i < 3; i++) if (left) copy(ELEMENTS);
        }
        cp_async_commit();
        cp_async_wait<0>();
        sync_warp();
    }

    // Before this all lanes have met after their last step.
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

    // Replaces the entries of a lane's two elements where they are escapes.
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

__device__ __forceinline__ u32 brain(u32 exponent, u32 rest) {
    return (rest & 0x80) << 8 | exponent << 7 | (rest & 0x7f);
}

// How two neighbouring 16-bit elements are joined: the upper plane's bytes go `shift` bits up, the lower plane's keep
// `keep` and move `sign` to the top.
struct Halves {
    u32 shift, keep, sign;

    __device__ __forceinline__ explicit Halves(u32 split)
        : shift(split == BRAIN ? 7 : 8), keep(split == BRAIN ? 0x007f007fu : 0x00ff00ffu),
          sign(split == BRAIN ? 0x80008000u : 0) {}

    __device__ __forceinline__ u32 upper(u32 first, u32 second) const { return (first | second << 16) << shift; }

    // `lower` has the lower bytes side by side.
    __device__ __forceinline__ u32 join(u32 upper, u32 lower) const {
        const u32 spread = __byte_perm(lower, 0, 0x4140);
        return (spread & keep) | (spread << 8 & sign) | upper;
    }
};

// A plane's bytes, once it is decoded.
struct Source {
    const u8* bytes;
    u32 constant;
    __device__ __forceinline__ u32 get(u32 index) const { return bytes ? bytes[index] : constant; }
};

// Dwords of the decoded tile on their way out.
struct Output {
    u8* out;
    u64 row_step;
    u32 row_len;
    bool by_words;

    __device__ __forceinline__ Output(u8* out, const Job& job)
        : out(out + job.out), row_step(job.row_step), row_len(job.row_len),
          by_words(((u64)this->out | row_step | row_len) % 4 == 0) {}

    // Whether the 512 bytes of a batch, which begin on a multiple of 512, always lie in one row.
    __device__ __forceinline__ bool is_wide() const { return by_words && row_len % 512 == 0; }

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

// A warp's place in a wide output.
struct Cursor {
    u8* to;
    u32 jump, column, row_len;

    __device__ __forceinline__ Cursor(const Output& output, u32 byte)
        : jump((u32)output.row_step - output.row_len), row_len(output.row_len) {
        const u32 row = byte / row_len;
        column = byte - row * row_len;
        to = output.out + row * output.row_step + column + 4 * (threadIdx.x % LANES);
    }

    __device__ __forceinline__ void store(u32 k, u32 word) { *reinterpret_cast<u32*>(to + 128 * k) = word; }

    __device__ __forceinline__ void advance(u32 bytes) {
        to += bytes;
        column += bytes;
        if (column == row_len) {
            column = 0;
            to += jump;
        }
    }
};

// The coded plane 0 of 16-bit elements, joined with the other as it is decoded.
struct Joined {
    Stream& stream;
    Escapes& escapes;
    const Source other;
    Ahead& ahead;
    const Halves halves;
    u32 hash;

    // Both elements of a symbol, in place; bits 0 and 16 say which are escapes.
    static constexpr u32 ESCAPED = 0x00010001u;

    __device__ __forceinline__ Feeder feeder(u32 from, u32 end) const {
        if (!other.bytes) {
            for (u32 i = threadIdx.x % LANES; i < SLOT; i += LANES) reinterpret_cast<u32*>(ahead.lower)[i] = other.constant * 0x01010101u;
        }
        return Feeder(stream, ahead, other.bytes ? other.bytes + from : nullptr, end - from);
    }

    // Two of the other plane's bytes of a batch.
    __device__ __forceinline__ u32 lower(u32 slot, u32 k) const {
        return reinterpret_cast<const u16*>(ahead.lower)[slot % 4 * (SLOT / 2) + 32 * k + threadIdx.x % LANES];
    }

    // Whole batches of pairs in `from..end`; returns where they end.
    __device__ __forceinline__ u32 pairs(const u32* uppers, Cursor cursor, u32 from, u32 end) {
        Feeder feeder = this->feeder(from, end);
        feeder.begin<256>();
        const u32 n = (end - from) / 256;
        for (u32 slot = 0; slot < n; slot++) {
            u32 upper[4];
#pragma unroll
            for (u32 k = 0; k < 4; k++) upper[k] = uppers[stream.next() >> 12 & 255];
            if (ballot(FULL_WARP, (upper[0] | upper[1] | upper[2] | upper[3]) & ESCAPED)) {
#pragma unroll 1
                for (u32 k = 0; k < 4; k++) {
                    u32 first = 0, second = 0;
                    const u32 of = k == 0 ? upper[0] : k == 1 ? upper[1] : k == 2 ? upper[2] : upper[3];
                    escapes.fill(of & 1, of >> 16 & 1, first, second);
                    const u32 filled = (of & ~ESCAPED) | halves.upper(first, second);
                    if (k == 0) upper[0] = filled;
                    if (k == 1) upper[1] = filled;
                    if (k == 2) upper[2] = filled;
                    if (k == 3) upper[3] = filled;
                }
            }
#pragma unroll
            for (u32 k = 0; k < 4; k++) {
                const u32 word = halves.join(upper[k], lower(slot, k));
                hash = hash_step(hash, word);
                cursor.store(k, word);
            }
            cursor.advance(512);
            feeder.next<256>(stream);
        }
        return from + 256 * n;
    }

    // Whole batches of bytes: four steps of 32 elements, which change lanes so that neighbours come together.
    __device__ __forceinline__ u32 bytes(Cursor cursor, u32 from, u32 end) {
        const u32 lane = threadIdx.x % LANES;
        const u32 partner = 2 * (lane % 16), select = lane < 16 ? 0x7470u : 0x7571u;
        Feeder feeder = this->feeder(from, end);
        feeder.begin<128>();
        const u32 n = (end - from) / 128;
        for (u32 slot = 0; slot < n; slot++) {
            // A symbol is at bits 12 to 19: bytes 1 and 2, shifted by 4.
            u32 entries[4];
#pragma unroll
            for (u32 k = 0; k < 4; k++) entries[k] = stream.next() >> 12;
            const u32 low = __byte_perm(entries[0], entries[1], 0x0040), high = __byte_perm(entries[2], entries[3], 0x0040);
            const u32 symbols = __byte_perm(low, high, 0x5410);
            const u32 even = shfl_idx(FULL_WARP, symbols, partner), odd = shfl_idx(FULL_WARP, symbols, partner + 1);
#pragma unroll
            for (u32 k = 0; k < 2; k++) {
                const u32 upper = (__byte_perm(even, odd, select + 0x0202 * k) & 0x00ff00ffu) << halves.shift;
                const u32 word = halves.join(upper, lower(slot, k));
                hash = hash_step(hash, word);
                cursor.store(k, word);
            }
            cursor.advance(256);
            feeder.next<128>(stream);
        }
        return from + 128 * n;
    }

    // What is left, or all of it where rows are narrow; up to 64 elements at a time.
    __device__ void rest(u32 mode, const Coded& coded, const Output& output, u32 begin, u32 end) {
        const u32 lane = threadIdx.x % LANES;
        for (; begin < end; begin += 2 * LANES) {
            const u32 element = begin + 2 * lane;
            u32 first, second;
            if (mode == PAIRS) {
                const bool active = element < end;
                const u32 symbol = stream.next_of(active);
                const u32 low = active ? symbol & 15 : 0, high = element + 1 < end ? symbol >> 4 : 0;
                first = coded.palette[low];
                second = coded.palette[high];
                escapes.fill(low == 15, high == 15, first, second);
            } else {
                const u32 a = stream.next_of(begin + lane < end);
                const u32 b = begin + LANES < end ? stream.next_of(begin + LANES + lane < end) : 0;
                const u32 both = a | b << 8, from = 2 * (lane % 16), shift = lane < 16 ? 0 : 8;
                first = shfl_idx(FULL_WARP, both, from) >> shift & 255;
                second = shfl_idx(FULL_WARP, both, from + 1) >> shift & 255;
            }
            if (element < end) {
                const bool two = element + 1 < end;
                const u32 lower = other.get(element) | (two ? other.get(element + 1) << 8 : 0);
                u32 word = halves.join(halves.upper(first, second), lower);
                if (!two) word &= 0xffff;
                hash = hash_step(hash, word);
                output.store(2 * element, word, two ? 4 : 2);
            }
            stream.advance();
        }
    }
};

// A coded plane into memory.
__device__ void decode_plane(Stream& stream, Escapes& escapes, const Coded& coded, u32 mode, u8* plane, u32 begin, u32 end) {
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

// The dword of a segment from `begin` to `end` whose planes are all at hand.
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

// How a tile is shared out to warps, and its entries in the index. Lies in shared memory.
struct Segments {
    Slices slices;
    u32 len, per_slice, step, entries, entry_len;
    const u8* index;

    static __device__ __forceinline__ Segments of(const Job& job, const u8* packed, u32 n_coded) {
        const Slices slices = Slices::of(job.n);
        const u32 len = job.segment ? job.stride : max(slices.len, 1u), step = job.segment ? job.segment : len;
        return {slices, len, max((slices.len + len - 1) / len, 1u), step, (slices.len + step - 1) / step,
                4 * LANES + (u32)sizeof(Snapshot) * n_coded, job.segment ? packed + job.index : nullptr};
    }

    __device__ __forceinline__ bool are_indexed() const { return index != nullptr; }
    // With an index the tile's hash is a part of its own, after those that decode.
    __device__ __forceinline__ bool is_sum(u32 segment) const { return index && segment >= per_slice * slices.count; }
    // The entry for the first `n` elements of a slice, which end a segment.
    __device__ __forceinline__ const u32* lanes(u32 slice, u32 n) const {
        return reinterpret_cast<const u32*>(index + (u64)(slice * entries + (n - 1) / step) * entry_len);
    }
    __device__ __forceinline__ const Snapshot& snapshot(u32 slice, u32 n, u32 coded) const {
        return reinterpret_cast<const Snapshot*>(lanes(slice, n) + LANES)[coded];
    }
};

// What a warp decodes: elements `begin..end` of the slice `first..last`.
struct Work {
    u32 slice, first, last, begin, end, is_here;

    static __device__ __forceinline__ Work of(const Segments& segments, u32 segment) {
        const u32 slice = min(segment / segments.per_slice, WARPS - 1);
        const u32 first = segments.slices.begin(slice), last = segments.slices.end(slice);
        const u32 begin = min(first + segment % segments.per_slice * segments.len, last), end = min(begin + segments.len, last);
        return {slice, first, last, begin, end, segment / segments.per_slice < segments.slices.count && (begin < end || segment == 0)};
    }
};

// What is spilled is used once for each plane, outside the loops.
// budget: 64 registers, 48 spill
extern "C" __global__ void __launch_bounds__(128, 8) rans_decode(const Job* jobs, const Part* parts, const u8* packed, u8* out, u8* scratch, i32* status) {
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
    u32 hash = segments.are_indexed() && work.is_here && work.begin > work.first ? segments.lanes(work.slice, work.begin - work.first)[lane] : 0;
    bool is_joined = false;

    // The last plane first: the coded one that others are joined with needs them.
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
        if (threadIdx.x == 0 && (table_len == 0 || !cut_streams(record, plane, segments.slices, table_len, coded))) failure = MALFORMED;
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
                        done = plane.mode == PAIRS ? joined.pairs(uppers, cursor, work.begin, work.end) : joined.bytes(cursor, work.begin, work.end);
                    }
                    cp_async_wait<0>();
                    sync_warp();
                    joined.rest(plane.mode, coded, output, done, work.end);
                    hash = joined.hash;
                } else {
                    decode_plane(stream, escapes, coded, plane.mode, scratch + job.scratch + (u64)p * job.n, work.begin, work.end);
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
    const bool is_other = segments.are_indexed() && work.is_here && hash != segments.lanes(work.slice, work.end - work.first)[lane];
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
