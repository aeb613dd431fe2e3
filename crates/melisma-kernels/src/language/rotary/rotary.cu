// Rotary positions, one thread for each channel of the first half of a head. Grid: x over heads and
// channels, y over rows. Queries are turned in place; keys and values go to the cache.
#include "tokens.cuh"

struct Shape {
  Tokens tokens;
  CacheShape shape;
  u32 n_heads;
  // [position, 2, D/2]: cosines, then sines.
  const float* turns;
  // [R, (Q + 2 H) D]
  float* qkv;
  // Of T.
  void* cache;
};

__device__ __forceinline__ void put(float* to, float x) { *to = x; }
__device__ __forceinline__ void put(u16* to, float x) { *to = f32_to_bf16(x); }

template <class T>
__device__ __forceinline__ void rotary(const Shape& all) {
  const u32 half = all.shape.head_dim / 2, n_queries = all.n_heads, n_keys = all.shape.n_heads;
  const u32 n_heads = n_queries + 2 * n_keys, index = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 head = index / half, i = index % half;
  if (head >= n_heads) return;
  for (u32 row = blockIdx.y; row < all.tokens.n_rows; row += gridDim.y) {
    const u32 position = all.tokens.position(row);
    float* from = all.qkv + ((u64)row * n_heads + head) * 2 * half + i;
    const float a = from[0], b = from[half];
    const float* turn = all.turns + (u64)position * 2 * half + i;
    const float cos = turn[0], sin = turn[half];
    const float x = fused_multiply_add(a, cos, -(b * sin)), y = fused_multiply_add(b, cos, a * sin);
    if (head < n_queries + n_keys) {
      from[0] = x;
      from[half] = y;
    }
    if (head < n_queries) continue;
    const bool is_key = head < n_queries + n_keys;
    const u32 page = all.tokens.pages(row)[position / all.shape.page_len], own = (head - n_queries) % n_keys;
    T* to = static_cast<T*>(all.cache) + (is_key ? all.shape.keys(page, own) : all.shape.values(page, own)) +
                (u64)(position % all.shape.page_len) * 2 * half + i;
    put(to, is_key ? x : a);
    put(to + half, is_key ? y : b);
  }
}

// budget: 40 registers, 0 spill
extern "C" __global__ void __launch_bounds__(128) rotary_f32(Shape all) { rotary<float>(all); }
// budget: 40 registers, 0 spill
extern "C" __global__ void __launch_bounds__(128) rotary_bf16(Shape all) { rotary<u16>(all); }
