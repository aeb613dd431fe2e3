// Codes to latents: one thread per channel of a latent.
#include "step.cuh"

struct Level {
  i64 stride, n_codes, places, codebook, weight, bias;
};

struct Shape {
  Step step;
  const Level* levels;
  const i64* places;
  // [N, D], [D, C] and [C] of all levels, at the offsets in `levels`.
  const float* floats;
  const i32* codes;
  float* y;
  u32 n_levels, n_channels, dim, frame_latents, frame_codes;
};

// budget: 64 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) embed_f32(Shape shape) {
  const u32 n = shape.n_channels, n_latents = shape.step.n_latents;
  for
    GRID_STRIDE(i, (u64)shape.step.n_rows * n_latents * n) {
      const u32 c = (u32)(i % n), column = (u32)(i / n), t = column % n_latents;
      const Row& row = shape.step.rows[column / n_latents];
      const i32* codes = shape.codes + (u64)(column / shape.frame_latents) * shape.frame_codes;
      float y = 0.0f;
      if (row.start + t < row.end) {
        for (u32 l = 0; l < shape.n_levels; l++) {
          const Level level = shape.levels[l];
          const i32 found = codes[shape.places[level.places + column % shape.frame_latents / (u32)level.stride]];
          const i32 code = min(max(found, 0), (i32)level.n_codes - 1);
          const float* vector = shape.floats + level.codebook + (u64)code * shape.dim;
          const float* weight = shape.floats + level.weight + c;
          float sum = __ldg(shape.floats + level.bias + c);
          for (u32 d = 0; d < shape.dim; d++) sum = fused_multiply_add(__ldg(weight + d * n), __ldg(vector + d), sum);
          y += sum;
        }
      }
      shape.y[i] = y;
    }
}
