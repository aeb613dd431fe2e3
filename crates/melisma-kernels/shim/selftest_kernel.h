// Tests of what kernels compute.
#pragma once

#include <cmath>

#include "bits.h"
#include "selftest.h"

namespace {

std::vector<float> noise(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = float(int32_t(seed) >> 8) / float(1 << 23);
  }
  return values;
}

bool vector_add() {
  size_t n = 10007;
  std::vector<float> a = noise(n, 1), b = noise(n, 2);
  Buffer<float> da(a), db(b), sum(n);
  if (launch("vector_add", {7, 96}, da.pointer, db.pointer, sum.pointer, uint64_t(n))) return false;
  std::vector<float> got = sum.read();
  for (size_t i = 0; i < n; i++)
    if (got[i] != a[i] + b[i]) return false;
  return true;
}

bool block_sum() {
  std::vector<uint32_t> values(5 * 128), expected(5);
  for (uint32_t i = 0; i < values.size(); i++) values[i] = i * i, expected[i / 128] += i * i;
  Buffer<uint32_t> in(values), out(5);
  return launch("block_sum", {5, 128}, in.pointer, out.pointer) == 0 && out.read() == expected;
}

bool warp_helpers() {
  std::vector<uint64_t> values(64);
  for (uint64_t i = 0; i < 64; i++) values[i] = i * 7 % 64 + 1;
  Buffer<uint64_t> in(values), out(64 * 6);
  if (launch("warp_helpers", {1, 64}, in.pointer, out.pointer)) return false;
  std::vector<uint64_t> got = out.read();
  for (uint64_t i = 0; i < 64; i++) {
    uint64_t first = i / 32 * 32, sum = 0, prefix = 0;
    uint32_t odd = 0;
    for (uint64_t j = first; j < first + 32; j++) {
      sum += values[j];
      if (j <= i) prefix += values[j];
      odd |= uint32_t(values[j] & 1) << (j - first);
    }
    uint64_t expected[6] = {sum,
                            prefix,
                            values[first + 31],
                            values[i % 32 == 31 ? i : i + 1],
                            uint64_t(__builtin_popcount(odd) + __builtin_popcountll(values[i])),
                            uint64_t(__builtin_clz(odd) + __builtin_clzll(values[i]))};
    if (memcmp(expected, &got[i * 6], sizeof expected) != 0) return false;
  }
  return true;
}

bool half_warps() {
  Buffer<uint32_t> out(64);
  if (launch("half_warps", {1, 64}, out.pointer)) return false;
  std::vector<uint32_t> got = out.read();
  for (uint32_t i = 0; i < 64; i++)
    if (got[i] != (i % 32 < 16 ? 0xaaaau + (i % 32 ^ 1) : 20)) return false;
  return true;
}

bool staged_copies() {
  unsigned size = 32, tiles = 3, n = 90;
  std::vector<float> in = noise(n * 4, 3);
  Buffer<float> source(in), out(size * tiles * 4);
  if (launch("reverse_tiles", {1, size, 2 * size * 16}, source.pointer, out.pointer, n, tiles)) return false;
  std::vector<float> got = out.read();
  for (unsigned i = 0; i < size * tiles * 4; i++) {
    unsigned from = (i / 4 / size * size + size - 1 - i / 4 % size) * 4 + i % 4;
    if (got[i] != (from < n * 4 ? in[from] : 0.0f)) return false;
  }
  return true;
}

bool streaming_copies() {
  std::vector<float> in = noise(32 * 4, 4);
  Buffer<float> source(in), out(32 * 4);
  return launch("copy_streaming", {1, 32}, source.pointer, out.pointer) == 0 && out.read() == in;
}

bool halves_round_trip() {
  Buffer<uint16_t> f16(65536), bf16(65536);
  if (launch("halves_round_trip", {256, 256}, f16.pointer, bf16.pointer)) return false;
  std::vector<uint16_t> got_f16 = f16.read(), got_bf16 = bf16.read();
  for (uint32_t i = 0; i < 65536; i++) {
    uint32_t quiet_f16 = (i & 0x7fff) > 0x7c00 ? 0x0200 : 0, quiet_bf16 = (i & 0x7fff) > 0x7f80 ? 0x0040 : 0;
    if (got_f16[i] != (i | quiet_f16) || got_bf16[i] != (i | quiet_bf16)) return false;
  }
  return true;
}

struct Conversion {
  float in;
  uint16_t f16, bf16;
  uint32_t tf32;
  int32_t whole;
};

bool conversions() {
  const Conversion cases[] = {
      {65519.996f, 0x7bff, 0x4780, 0x477fe000, 65520},
      {65520.0f, 0x7c00, 0x4780, 0x47800000, 65520},
      {5.9604645e-8f, 0x0001, 0x3380, 0x33800000, 0},
      {2.9802322e-8f, 0x0000, 0x3300, 0x33000000, 0},
      {2.9802326e-8f, 0x0001, 0x3300, 0x33000000, 0},
      {6.1035156e-5f, 0x0400, 0x3880, 0x38800000, 0},
      {float_of(0x387fe000), 0x0400, 0x3880, 0x387fe000, 0},
      {float_of(0x387fdfff), 0x03ff, 0x3880, 0x387fe000, 0},
      {1.00048828125f, 0x3c00, 0x3f80, 0x3f802000, 1},
      {-2.5f, 0xc100, 0xc020, 0xc0200000, -2},
      {3e9f, 0x7c00, 0x4f33, 0x4f32e000, 2147483647},
      {float_of(0xff800001), 0xfe00, 0xffc0, 0x7fffffff, 0},
      {float_of(0x7fa12345), 0x7f09, 0x7fe1, 0x7fffffff, 0},
      {-INFINITY, 0xfc00, 0xff80, 0xff800000, INT32_MIN},
      {-0.0f, 0x8000, 0x8000, 0x80000000, 0},
  };
  constexpr unsigned n = sizeof cases / sizeof cases[0];
  std::vector<float> in;
  for (const Conversion& c : cases) in.push_back(c.in);
  Buffer<float> source(in);
  Buffer<uint16_t> f16(n), bf16(n);
  Buffer<uint32_t> tf32(n);
  Buffer<int32_t> whole(n);
  if (launch("convert", {1, 32}, source.pointer, f16.pointer, bf16.pointer, tf32.pointer, whole.pointer, n))
    return false;
  bool same = true;
  for (unsigned i = 0; i < n; i++) {
    Conversion got = {in[i], f16.read()[i], bf16.read()[i], tf32.read()[i], whole.read()[i]};
    if (got.f16 == cases[i].f16 && got.bf16 == cases[i].bf16 && got.tf32 == cases[i].tf32 &&
        got.whole == cases[i].whole)
      continue;
    fprintf(stderr, "  %08x -> %04x %04x %08x %d\n", bits_of(in[i]), got.f16, got.bf16, got.tf32, got.whole);
    same = false;
  }
  return same;
}

bool product(const char* kernel, unsigned depth, float (*rounded)(float)) {
  std::vector<float> a = noise(16 * depth, 5), b = noise(depth * 8, 6);
  Buffer<float> da(a), db(b), d(16 * 8);
  if (launch(kernel, {1, 32}, da.pointer, db.pointer, d.pointer)) return false;
  std::vector<float> got = d.read();
  for (unsigned i = 0; i < 16; i++)
    for (unsigned j = 0; j < 8; j++) {
      double sum = 1.0;
      for (unsigned k = 0; k < depth; k++) sum += double(rounded(a[i * depth + k])) * double(rounded(b[k * 8 + j]));
      if (std::fabs(sum - got[i * 8 + j]) > 1e-6) return false;
    }
  return true;
}

bool mma_tf32() {
  return product("multiply_tf32", 8, [](float x) { return float_of((bits_of(x) + 0x1000) & 0xffffe000); });
}
bool mma_bf16() {
  return product("multiply_bf16", 16,
                 [](float x) { return float_of((bits_of(x) + 0x7fff + (bits_of(x) >> 16 & 1)) & 0xffff0000); });
}
bool mma_f16() {
  return product("multiply_f16", 16,
                 [](float x) { return float_of((bits_of(x) + 0x0fff + (bits_of(x) >> 13 & 1)) & 0xffffe000); });
}

bool early_exit() {
  Buffer<uint32_t> out(std::vector<uint32_t>{0});
  return launch("early_exit", {3, 100}, out.pointer) == 0 && out.read()[0] == 150;
}

bool constant_table() {
  uint64_t pointer = 0;
  size_t bytes = 0;
  float values[4] = {1, 2, 3, 4};
  if (cuda("cuModuleGetGlobal_v2", &pointer, &bytes, module_handle, "table") || bytes != sizeof values) return false;
  if (cuda("cuMemcpyHtoD_v2", pointer, static_cast<const void*>(values), bytes)) return false;
  Buffer<float> out(4);
  return launch("read_table", {1, 4}, out.pointer) == 0 && out.read() == std::vector<float>{1, 2, 3, 4};
}

}  // namespace
