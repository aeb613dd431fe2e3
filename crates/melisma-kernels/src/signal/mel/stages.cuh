// Code that both forms of the transform share: the job, its samples, and the stages after the
// transform.
#pragma once
#include "butterfly.cuh"

struct Filter {
  i32 first_bin, first_weight, n_bins, unused;
};
struct Pass {
  i32 radix, groups, stride, twiddles;
};

// The arguments of a launch; `Arguments` of cuda.rs.
struct Job {
  const void* samples;
  void* values;
  float* maxima;
  const float* window;
  const float2* turns;
  const Filter* filters;
  const float* weights;
  const float2* twiddles;
  const Pass* passes;
  u64 n_samples, n_frames;
  i32 n_fft, frame_len, hop_len, pad;
  i32 n_filters, n_passes, frames_per_block, blocks_per_item;
  // 0 zero, 1 reflect, 2 mirror
  i32 edge;
  i32 is_i16, is_f16, is_time_first, is_log, is_power, has_range, removes_mean;
  float pre_emphasis, epsilon, floor, gain, offset, range;
};

// Position of element i. The power of bin n_fft / 2 takes one more.
__device__ __forceinline__ int place(int i) { return i + (i >> 3); }
// At least 32: sums of the block's threads use the same memory.
__device__ __forceinline__ int frame_stride(int len) { return max(place(len) + 5, 32); }

__device__ __forceinline__ float sample_at(const Job& job, u64 item, i64 at) {
  const i64 n = (i64)job.n_samples;
  if (n == 0 || (job.edge == 0 && (at < 0 || at >= n))) return 0.0f;
  // Reflects until the index is inside; once, unless the item is shorter than the padding.
  const i64 outer = job.edge == 1 ? 0 : 1;
  if (n == 1) at = 0;
  while (at < 0 || at >= n) at = at < 0 ? -at - outer : 2 * (n - 1) + outer - at;
  const u64 index = item * job.n_samples + (u64)at;
  if (job.is_i16) return (float)((const i16*)job.samples)[index] * (1.0f / 32768.0f);
  return ((const float*)job.samples)[index];
}

// A prepared and windowed sample of a frame.
struct Frame {
  const float* x;
  const float* window;
  float mean, pre_emphasis;
  i32 prepares, len;
  __device__ __forceinline__ float operator()(int n) const {
    if (n >= len) return 0.0f;
    float value = x[n];
    if (prepares) {
      const float before = x[n > 0 ? n - 1 : 0] - mean;
      value = fused_multiply_add(-before, pre_emphasis, value - mean);
    }
    return value * window[n];
  }
};

__device__ __forceinline__ float square_of(float re, float im) { return fused_multiply_add(re, re, im * im); }

__device__ __forceinline__ float power_of(const Job& job, float re, float im) {
  return job.is_power ? square_of(re, im) : sqrtf(square_of(re, im) + job.epsilon);
}

// Writes powers over the transform's elements: bin k at place(k) of `re`.
__device__ __forceinline__ void spectrum(const Job& job, float* re, const float* im, int len, int thread, int threads) {
  if (job.n_fft % 2) {
    for (int k = thread; k <= job.n_fft / 2; k += threads) re[place(k)] = power_of(job, re[place(k)], im[place(k)]);
    return;
  }
  for (int k = thread; k <= len / 2; k += threads) {
    const int low = place(k), high = place(k == 0 ? 0 : len - k);
    const float a = re[low], b = im[low], c = re[high], d = im[high];
    const float2 turn = job.turns[k];
    const float e_re = a + c, e_im = b - d, o_re = a - c, o_im = b + d;
    const float t_re = fused_multiply_add(-o_im, turn.y, o_re * turn.x);
    const float t_im = fused_multiply_add(o_im, turn.x, o_re * turn.y);
    re[low] = power_of(job, e_re + t_re, e_im + t_im);
    re[place(len - k)] = power_of(job, e_re - t_re, e_im - t_im);
  }
}

__device__ __forceinline__ float scaled(const Job& job, float sum) {
  if (!job.is_log) return sum;
  // NaN stays.
  const float above = sum < job.floor ? job.floor : sum;
  return fused_multiply_add(logf(above), job.gain, job.offset);
}

// The index of the value of a filter and a frame.
__device__ __forceinline__ u64 place_of(const Job& job, u64 item, int filter, u64 frame) {
  const u64 base = item * job.n_frames * job.n_filters;
  return job.is_time_first ? base + frame * job.n_filters + filter : base + filter * job.n_frames + frame;
}

__device__ __forceinline__ void store(const Job& job, u64 index, float value) {
  if (job.is_f16)
    ((u16*)job.values)[index] = f32_to_f16(value);
  else
    ((float*)job.values)[index] = value;
}

// Updates the item's maximum with the largest value of the block's threads.
__device__ __forceinline__ void keep_largest(const Job& job, float* shared, float largest) {
  __syncthreads();
  shared[threadIdx.x] = largest;
  __syncthreads();
  for (u32 n = blockDim.x; n > 1; n = (n + 1) / 2) {
    const u32 half = (n + 1) / 2;
    if (threadIdx.x < n / 2) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x == 0) job.maxima[blockIdx.x] = shared[0];
}

// Sums the filters over the powers of all frames of the block.
__device__ __forceinline__ void weigh(const Job& job, float* powers, int stride, u64 item, u64 first_frame) {
  const int n = job.n_filters * job.frames_per_block;
  float largest = -__uint_as_float(0x7f800000u);
  for (int o = threadIdx.x; o < n; o += blockDim.x) {
    const int g = o % job.frames_per_block, f = o / job.frames_per_block;
    const u64 frame = first_frame + g;
    if (frame >= job.n_frames) continue;
    const Filter filter = job.filters[f];
    const float* row = powers + g * stride;
    float sum = 0.0f;
    for (int k = 0; k < filter.n_bins; k++) {
      sum = fused_multiply_add(row[place(filter.first_bin + k)], job.weights[filter.first_weight + k], sum);
    }
    sum = scaled(job, sum);
    if (sum > largest) largest = sum;
    store(job, place_of(job, item, f, frame), sum);
  }
  if (job.has_range) keep_largest(job, powers, largest);
}

// The means of the block's frames, each summed in a fixed order.
__device__ __forceinline__ float mean_of(const Job& job, const float* x, float* partial, int thread, int threads) {
  if (!job.removes_mean) return 0.0f;
  float sum = 0.0f;
  for (int n = thread; n < job.frame_len; n += threads) sum += x[n];
  partial[thread] = sum;
  __syncthreads();
  float mean = 0.0f;
  for (int t = 0; t < threads; t++) mean += partial[t];
  __syncthreads();
  return mean / (float)job.frame_len;
}
