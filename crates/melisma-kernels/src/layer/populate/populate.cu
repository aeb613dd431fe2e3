// Splits frames of seven codes into three levels. One block: a step has few frames, and the flags
// need no second launch.
#include "device.cuh"

struct Levels {
  i32 *coarse, *middle, *fine, *valid;
};

// budget: 32 registers, 0 spill
extern "C" __global__ void __launch_bounds__(1024)
    populate_i32(const i32* frames, Levels levels, u64 n_frames, i32 codebook_size) {
  const u32 limit = (u32)max(codebook_size, 0);
  bool good[3] = {true, true, true};
  for (u64 i = threadIdx.x; i < n_frames; i += blockDim.x) {
    const i32* from = frames + 7 * i;
    const i32 a = from[0], b = from[1], c = from[2], d = from[3], e = from[4], f = from[5], g = from[6];
    levels.coarse[i] = a;
    levels.middle[2 * i] = b;
    levels.middle[2 * i + 1] = e;
    levels.fine[4 * i] = c;
    levels.fine[4 * i + 1] = d;
    levels.fine[4 * i + 2] = f;
    levels.fine[4 * i + 3] = g;
    // As unsigned numbers, negative codes are large too.
    good[0] = good[0] && (u32)a < limit;
    good[1] = good[1] && (u32)b < limit && (u32)e < limit;
    good[2] = good[2] && (u32)c < limit && (u32)d < limit && (u32)f < limit && (u32)g < limit;
  }
#pragma unroll
  for (int level = 0; level < 3; level++) {
    const int all = __syncthreads_and(good[level]);
    if (threadIdx.x == 0) levels.valid[level] = all ? 1 : 0;
  }
}
