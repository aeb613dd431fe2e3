// A product with a matrix at every time step, in three modes.
#include "product.cuh"

enum Mode { PLAIN, ADD, NOISE };

struct Shape {
  Step step;
  Timeline timeline;
  const float *x, *with, *bias;
  float* y;
  u32 n_columns, n_in, n_out;
};

template <Mode MODE>
struct Pointwise : Shape {
  struct Column {
    const float* x;
    float scale;
  };
  __device__ __forceinline__ Pointwise(const Shape& shape) : Shape(shape) {}

  __device__ __forceinline__ Column column(u32 n) const {
    if (n >= n_columns) return {nullptr, 0.0f};
    return {x + (u64)n * n_in, MODE == NOISE ? with[n] : 1.0f};
  }
  __device__ __forceinline__ float4 fetch(const Column& column, u32 k) const {
    if (!column.x) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 v = load4(column.x, k, n_in);
    if (MODE == NOISE) v = make_float4(column.scale * v.x, column.scale * v.y, column.scale * v.z, column.scale * v.w);
    return v;
  }
  __device__ __forceinline__ float4 form(u32, float4 raw) const { return raw; }

  __device__ __forceinline__ void store(u32 n, u32 m, float4 sums) const {
    float* to = y + (u64)n * n_out;
    if (MODE == NOISE) {
      const float4 own = load4(x + (u64)n * n_in, m, n_in);
      store4(to, m, n_out, with[n] == 0.0f ? own : add4(own, sums));
      return;
    }
    const u32 len = step.n_latents * timeline.rate;
    const bool live = live_outputs(step.rows[n / len], timeline, step.n_latents).has(n % len);
    const float4 start = MODE == ADD ? load4(with + (u64)n * n_out, m, n_out) : load4(bias, m, n_out);
    store4(to, m, n_out, live ? add4(start, sums) : make_float4(0.0f, 0.0f, 0.0f, 0.0f));
  }
  __device__ __forceinline__ void remember() const {}
};

// budget for pointwise_*: 128 registers, 0 spill
#define POINTWISE(NAME, MODE)                                                                                            \
  extern "C" __global__ void __launch_bounds__(256) pointwise_##NAME##_few(Shape shape, Factors factors) {               \
    product_few(Pointwise<MODE>(shape), factors);                                                                        \
  }                                                                                                                      \
  extern "C" __global__ void __launch_bounds__(256, 2) pointwise_##NAME##_wide(Shape shape, Factors factors) {           \
    product_many<2>(Pointwise<MODE>(shape), factors);                                                                    \
  }                                                                                                                      \
  extern "C" __global__ void __launch_bounds__(256, 2) pointwise_##NAME##_tall(Shape shape, Factors factors) {           \
    product_many<4>(Pointwise<MODE>(shape), factors);                                                                    \
  }
POINTWISE(plain, PLAIN)
POINTWISE(add, ADD)
POINTWISE(noise, NOISE)
