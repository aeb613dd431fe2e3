// Output of decoded planes: 16-bit elements are joined while they are decoded, wider ones from
// memory.
#pragma once
#include "stream.cuh"

__device__ __forceinline__ u32 brain(u32 exponent, u32 rest) {
  return (rest & 0x80) << 8 | exponent << 7 | (rest & 0x7f);
}

// How two neighbouring 16-bit elements are joined: the upper plane's bytes are shifted up by
// `shift` bits; the lower plane's are masked by `keep`, and their `sign` bits move to the top.
struct Halves {
  u32 shift, keep, sign;

  __device__ __forceinline__ explicit Halves(u32 split)
      : shift(split == BRAIN ? 7 : 8),
        keep(split == BRAIN ? 0x007f007fu : 0x00ff00ffu),
        sign(split == BRAIN ? 0x80008000u : 0) {}

  __device__ __forceinline__ u32 upper(u32 first, u32 second) const { return (first | second << 16) << shift; }

  // `lower` holds the two lower bytes side by side.
  __device__ __forceinline__ u32 join(u32 upper, u32 lower) const {
    const u32 spread = __byte_perm(lower, 0, 0x4140);
    return (spread & keep) | (spread << 8 & sign) | upper;
  }
};

// A plane's bytes after decoding.
struct Source {
  const u8* bytes;
  u32 constant;
  __device__ __forceinline__ u32 get(u32 index) const { return bytes ? bytes[index] : constant; }
};

// Writes dwords of the decoded tile.
struct Output {
  u8* out;
  u64 row_step;
  u32 row_len;
  bool by_words;

  __device__ __forceinline__ Output(u8* out, const Job& job)
      : out(out + job.out),
        row_step(job.row_step),
        row_len(job.row_len),
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

// A warp's position in a wide output.
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

// The coded plane 0 of 16-bit elements, joined with the other plane while it is decoded.
struct Joined {
  Stream& stream;
  Escapes& escapes;
  const Source other;
  Ahead& ahead;
  const Halves halves;
  u32 hash;

  // Both elements of a symbol, in place; bits 0 and 16 mark the escapes.
  static constexpr u32 ESCAPED = 0x00010001u;

  __device__ __forceinline__ Feeder feeder(u32 from, u32 end) const {
    if (!other.bytes) {
      for (u32 i = threadIdx.x % LANES; i < SLOT; i += LANES)
        reinterpret_cast<u32*>(ahead.lower)[i] = other.constant * 0x01010101u;
    }
    return Feeder(stream, ahead, other.bytes ? other.bytes + from : nullptr, end - from);
  }

  // Two bytes of a batch from the other plane.
  __device__ __forceinline__ u32 lower(u32 slot, u32 k) const {
    return reinterpret_cast<const u16*>(ahead.lower)[slot % 4 * (SLOT / 2) + 32 * k + threadIdx.x % LANES];
  }

  // Decodes whole batches of pairs in `from..end`; returns where they end.
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

  // Decodes whole batches of bytes: four steps of 32 elements, exchanged between lanes so that
  // neighbours meet.
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

  // Decodes the rest, or everything if rows are narrow; up to 64 elements at a time.
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
