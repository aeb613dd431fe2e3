// Rows of a matrix by number, widened from BF16: a block writes one row at a time, a thread eight
// channels of it.
#include "device.cuh"

// budget: 48 registers, 0 spill
extern "C" __global__ void __launch_bounds__(128)
    embed_bf16(const u16* weight, const u32* tokens, float* y, u32 n_rows, u32 n_channels) {
  for (u32 row = blockIdx.x; row < n_rows; row += gridDim.x) {
    const uint4* from = reinterpret_cast<const uint4*>(weight + (u64)tokens[row] * n_channels);
    float4* to = reinterpret_cast<float4*>(y + (u64)row * n_channels);
    for (u32 i = threadIdx.x; i < n_channels / 8; i += blockDim.x) {
      const uint4 v = load_streaming(from + i);
      to[2 * i] = make_float4(__uint_as_float(v.x << 16), __uint_as_float(v.x & 0xffff0000u),
                              __uint_as_float(v.y << 16), __uint_as_float(v.y & 0xffff0000u));
      to[2 * i + 1] = make_float4(__uint_as_float(v.z << 16), __uint_as_float(v.z & 0xffff0000u),
                                  __uint_as_float(v.w << 16), __uint_as_float(v.w & 0xffff0000u));
    }
  }
}
