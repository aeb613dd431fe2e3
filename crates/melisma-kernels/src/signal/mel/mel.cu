// Samples to mel spectrograms: a block computes a tile of neighbouring frames of one item.
//
// `mel_any` handles every size: samples in shared memory, Stockham's passes as in fft.rs between
// two buffers.
//
// The others are for LEN = n_fft / 2 = N1 N2 complex elements known at compile time, z[n] = x[2n] +
// i x[2n+1]. A warp computes 32 / N1 frames at once, with one exchange between two passes in
// registers:
//   n = N2 n1 + n2, k = k1 + N1 k2
//   first   lane n2 reads z[n] of all n1 from memory, transforms over n1, turns by e^{-2 pi i n2 k1 / LEN}
//   second  lane (frame, k1) transforms over n2
// Element LEN - k is then in the lane of N1 - k1, at N2 - 1 - k2, so each power needs one shuffle
// and no memory. Frames of a warp are n_frames / (32 / N1) rows apart, which puts all accesses of a
// warp in different banks. In the end lanes are frames: each weight is read once for all of them,
// and values are written in rows.
#include "stages.cuh"

// ---- any size -------------------------------------------------------------------------------------------------------

// The input of a pass: the frame for the first, the buffer for the others.
struct FromFrame {
  Frame frame;
  i32 is_half;
  __device__ __forceinline__ void operator()(int i, float& re, float& im) const {
    re = frame(is_half ? 2 * i : i);
    im = is_half ? frame(2 * i + 1) : 0.0f;
  }
};
struct FromBuffer {
  const float *re, *im;
  __device__ __forceinline__ void operator()(int i, float& a, float& b) const { a = re[place(i)], b = im[place(i)]; }
};

// One pass by definition: any radix, between two buffers.
template <class From>
__device__ __forceinline__ void any_pass(From from, float* re, float* im, int thread, int threads, const Pass& pass,
                                         const float2* twiddles) {
  const int len = pass.radix * pass.groups * pass.stride;
  for (int o = thread; o < len; o += threads) {
    const int q = o % pass.stride, k = o / pass.stride % pass.radix, p = o / pass.stride / pass.radix;
    float sum_a, sum_b;
    from(q + pass.stride * p, sum_a, sum_b);
    // The roots of unity of this radix follow the pass's twiddles.
    const float2* roots = twiddles + pass.groups * (pass.radix - 1);
    for (int j = 1; j < pass.radix; j++) {
      float a, b;
      from(q + pass.stride * (p + pass.groups * j), a, b);
      times(a, b, roots[j * k % pass.radix]);
      sum_a += a, sum_b += b;
    }
    if (p > 0 && k > 0) times(sum_a, sum_b, twiddles[p * (pass.radix - 1) + k - 1]);
    re[place(o)] = sum_a, im[place(o)] = sum_b;
  }
  __syncthreads();
}

// Shared memory: the samples of the block's frames, then for each frame `buffers` times [re], [im].
template <class Transform>
__device__ __forceinline__ void make_frames(const Job& job, int len, int threads, int buffers, Transform transform) {
  DYNAMIC_SHARED(float, shared);
  const u64 item = blockIdx.x / job.blocks_per_item;
  const u64 first_frame = (u64)(blockIdx.x % job.blocks_per_item) * job.frames_per_block;
  const int n_shared = (job.frames_per_block - 1) * job.hop_len + job.n_fft;
  const i64 first = (i64)(first_frame * job.hop_len) - job.pad;
  for (int i = threadIdx.x; i < n_shared; i += blockDim.x) shared[i] = sample_at(job, item, first + i);
  __syncthreads();
  const int g = threadIdx.x / threads, thread = threadIdx.x % threads, stride = frame_stride(len);
  float* const frames = shared + n_shared;
  float* const re = frames + g * stride * 2 * buffers;
  const float* const x = shared + g * job.hop_len;
  const float mean = mean_of(job, x, re, thread, threads);
  const Frame frame = {
      x, job.window, mean, job.pre_emphasis, job.removes_mean || job.pre_emphasis != 0.0f, job.frame_len};
  float* const out = transform(FromFrame{frame, job.n_fft % 2 == 0}, re, stride, thread);
  spectrum(job, out, out + stride, len, thread, threads);
  __syncthreads();
  weigh(job, frames + (out - re), stride * 2 * buffers, item, first_frame);
}

struct Any {
  const Job& job;
  int threads;
  __device__ __forceinline__ float* operator()(FromFrame from, float* re, int stride, int thread) const {
    float* other = re + 2 * stride;
    if (job.n_passes == 0 && thread == 0) from(0, re[0], re[stride]);
    if (job.n_passes == 0) __syncthreads();
    for (int i = 0; i < job.n_passes; i++) {
      const Pass one = job.passes[i];
      const float2* twiddles = job.twiddles + one.twiddles;
      if (i == 0) {
        any_pass(from, re, re + stride, thread, threads, one, twiddles);
      } else {
        any_pass(FromBuffer{re, re + stride}, other, other + stride, thread, threads, one, twiddles);
        float* const swapped = re;
        re = other, other = swapped;
      }
    }
    return re;
  }
};

// budget: 64 registers, 0 spill
extern "C" __global__ void __launch_bounds__(512) mel_any(Job job) {
  const int threads = blockDim.x / job.frames_per_block;
  const int len = job.n_fft % 2 ? job.n_fft : job.n_fft / 2;
  make_frames(job, len, threads, 2, Any{job, threads});
}

// ---- sizes that the compiler knows ------------------------------------------------------------------------------------

// The layout of a tile in shared memory: one row per frame, for the exchange and then for its
// powers. A row has a gap between the parts of an exchange where N2 would put them in the same
// banks.
template <int N1, int N2>
struct Row {
  static constexpr int LEN = N1 * N2, PART = N2 % 2 ? N2 : N2 + 1;
  static constexpr int USED = N1 * PART > LEN + 1 ? N1 * PART : LEN + 1;
  static constexpr int STRIDE = USED % 2 ? USED : USED + 1;
};

// Sample n of the frame that begins at `first`, prepared and windowed.
__device__ __forceinline__ float prepared(const Job& job, u64 item, i64 first, int n, float mean) {
  if (n >= job.frame_len) return 0.0f;
  float value = sample_at(job, item, first + n);
  if (job.removes_mean || job.pre_emphasis != 0.0f) {
    const float before = sample_at(job, item, first + (n > 0 ? n - 1 : 0)) - mean;
    value = fused_multiply_add(-before, job.pre_emphasis, value - mean);
  }
  return value * job.window[n];
}

// The mean of a frame, by a warp.
__device__ __forceinline__ float warp_mean(const Job& job, u64 item, i64 first, int lane) {
  float sum = 0.0f;
  for (int n = lane; n < job.frame_len; n += 32) sum += sample_at(job, item, first + n);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += shfl_xor(FULL_WARP, sum, step);
  return sum / (float)job.frame_len;
}

// Element n of a frame for all n1, windowed: neighbouring samples, in one access where they are
// aligned.
template <class Pair, int N1, int N2, class Sample>
__device__ __forceinline__ void read_elements(const Sample* x, const float* window, int n2, float (&re)[N1],
                                              float (&im)[N1]) {
  const float2* const w = (const float2*)window + n2;
  if (ballot(FULL_WARP, (u64)x % sizeof(Pair) != 0) == 0) {
    const Pair* const z = (const Pair*)x + n2;
#pragma unroll
    for (int n1 = 0; n1 < N1; n1++) {
      const Pair pair = load_constant(z + N2 * n1);
      const float2 height = w[N2 * n1];
      re[n1] = (float)pair.x * height.x, im[n1] = (float)pair.y * height.y;
    }
    return;
  }
  const Sample* const z = x + 2 * n2;
#pragma unroll
  for (int n1 = 0; n1 < N1; n1++) {
    const float2 height = w[N2 * n1];
    re[n1] = (float)load_constant(z + 2 * N2 * n1) * height.x;
    im[n1] = (float)load_constant(z + 2 * N2 * n1 + 1) * height.y;
  }
}

// Frames of integers stay in integer units until the filters' sums, which a power of two converts
// to float units.
__device__ __forceinline__ float power_unit(const Job& job) { return job.is_i16 ? 1.0f / 1073741824.0f : 1.0f; }

// Transforms the frames in rows `first_row` + j `rows_apart`, j < 32 / N1, and writes the powers of
// all bins to their rows. Frames beyond the last repeat the last.
template <int N1, int N2>
__device__ __forceinline__ void make_rows(const Job& job, u64 item, u64 tile_frame, float* rows, int first_row,
                                          int rows_apart) {
  constexpr int LEN = N1 * N2, PART = Row<N1, N2>::PART, STRIDE = Row<N1, N2>::STRIDE;
  // Frames of a warp in the second pass, and in a round of the first.
  constexpr int FRAMES = 32 / N1, ABREAST = 32 / N2, ROUNDS = FRAMES / ABREAST;
  // Lanes without their own element repeat the work of others.
  const int lane = (int)lane_id(), n2 = lane % N2, beside = lane / N2 % ABREAST;
  const bool is_plain = !job.removes_mean && job.pre_emphasis == 0.0f && job.frame_len == job.n_fft;
  const u64 last_frame = job.n_frames - 1;
  const float unit = job.is_i16 ? 32768.0f : 1.0f;
  float im[ROUNDS][N1];
#pragma unroll
  for (int round = 0; round < ROUNDS; round++) {
    const int row_index = first_row + (round * ABREAST + beside) * rows_apart;
    float* const row = rows + row_index * STRIDE;
    const u64 frame = min(tile_frame + row_index, last_frame);
    const i64 first = (i64)(frame * job.hop_len) - job.pad;
    const bool is_inside = is_plain && first >= 0 && first + job.n_fft <= (i64)job.n_samples;
    float re[N1];
    if (ballot(FULL_WARP, !is_inside) == 0) {
      const u64 at = item * job.n_samples + (u64)first;
      if (job.is_i16) {
        read_elements<short2, N1, N2>((const i16*)job.samples + at, job.window, n2, re, im[round]);
      } else {
        read_elements<float2, N1, N2>((const float*)job.samples + at, job.window, n2, re, im[round]);
      }
    } else {
      // Frames at an end and prepared frames go through their rows: even samples, then odd ones.
      for (int part = 0; part < 2; part++) {
        for (int b = 0; b < ABREAST; b++) {
          const int index = first_row + (round * ABREAST + b) * rows_apart;
          const i64 begin = (i64)(min(tile_frame + index, last_frame) * job.hop_len) - job.pad;
          const float mean = job.removes_mean ? warp_mean(job, item, begin, lane) : 0.0f;
          float* const to = rows + index * STRIDE;
          for (int i = lane; i < LEN; i += 32) to[i] = prepared(job, item, begin, 2 * i + part, mean) * unit;
        }
        sync_warp();
#pragma unroll
        for (int n1 = 0; n1 < N1; n1++) {
          const float value = row[N2 * n1 + n2];
          if (part == 0)
            re[n1] = value;
          else
            im[round][n1] = value;
        }
        sync_warp();
      }
    }
    butterfly<N1>(re, im[round]);
    const float2* const twiddles = job.twiddles + n2;
#pragma unroll
    for (int k1 = 1; k1 < N1; k1++) times(re[k1], im[round][k1], twiddles[(k1 - 1) * N2]);
#pragma unroll
    for (int k1 = 0; k1 < N1; k1++) row[k1 * PART + n2] = re[k1];
  }
  const int k1 = lane % N1;
  float* const row = rows + (first_row + lane / N1 * rows_apart) * STRIDE;
  float a[N2], b[N2];
  sync_warp();
#pragma unroll
  for (int i = 0; i < N2; i++) a[i] = row[k1 * PART + i];
  sync_warp();
#pragma unroll
  for (int round = 0; round < ROUNDS; round++) {
    float* const to = rows + (first_row + (round * ABREAST + beside) * rows_apart) * STRIDE + n2;
#pragma unroll
    for (int k = 0; k < N1; k++) to[k * PART] = im[round][k];
  }
  sync_warp();
#pragma unroll
  for (int i = 0; i < N2; i++) b[i] = row[k1 * PART + i];
  sync_warp();
  butterfly<N2>(a, b);
  const u32 partner = (u32)(lane - k1 + (N1 - k1) % N1);
  const float2* const turns = job.turns + k1;
  float *const low = row + k1, *const high = row + LEN - k1;
#pragma unroll
  for (int k2 = 0; k2 < (N2 + 1) / 2; k2++) {
    float c = shfl_idx(FULL_WARP, a[N2 - 1 - k2], partner), d = shfl_idx(FULL_WARP, b[N2 - 1 - k2], partner);
    if (k1 == 0) c = a[(N2 - k2) % N2], d = b[(N2 - k2) % N2];
    // The middle of an odd N2 is its own partner.
    if (2 * k2 + 1 == N2 && 2 * (k1 + N1 * k2) > LEN) continue;
    const float2 w = load_constant(turns + N1 * k2);
    const float e_re = a[k2] + c, e_im = b[k2] - d, o_re = a[k2] - c, o_im = b[k2] + d;
    const float t_re = fused_multiply_add(-o_im, w.y, o_re * w.x);
    const float t_im = fused_multiply_add(o_im, w.x, o_re * w.y);
    low[N1 * k2] = square_of(e_re + t_re, e_im + t_im);
    high[-N1 * k2] = square_of(e_re - t_re, e_im - t_im);
  }
  if (N2 % 2 == 0 && k1 == 0) row[LEN / 2] = square_of(a[N2 / 2] + a[N2 / 2], b[N2 / 2] + b[N2 / 2]);
  if (job.is_power) return;
  sync_warp();
  for (int k = k1; k <= LEN; k += N1) row[k] = sqrtf(fused_multiply_add(row[k], power_unit(job), job.epsilon));
}

template <int N1, int N2, int TILE, int WARPS>
__device__ __forceinline__ void make_tile(const Job& job) {
  constexpr int STRIDE = Row<N1, N2>::STRIDE, FRAMES = 32 / N1, ROWS = TILE / FRAMES;
  // Filters that a warp sums at once, and that all warps do.
  constexpr int EACH = 32 / TILE, ALL = EACH * WARPS;
  DYNAMIC_SHARED(float, rows);
  const u64 item = blockIdx.x / job.blocks_per_item;
  const u64 tile_frame = (u64)(blockIdx.x % job.blocks_per_item) * TILE;
  const int warp = threadIdx.x / 32;
  for (int row = warp; row < ROWS; row += WARPS) make_rows<N1, N2>(job, item, tile_frame, rows, row, ROWS);
  __syncthreads();
  const int lane = (int)lane_id(), first_filter = warp * EACH + lane / TILE;
  const u64 frame = tile_frame + lane % TILE;
  const float* const row = rows + lane % TILE * STRIDE;
  u64 index = place_of(job, item, first_filter, frame);
  const u64 step = ALL * (job.is_time_first ? 1 : job.n_frames);
  const float unit = job.is_power ? power_unit(job) : 1.0f;
  float largest = -__uint_as_float(0x7f800000u);
  for (int f = first_filter; f < job.n_filters; f += ALL, index += step) {
    const int4 filter = load_constant((const int4*)job.filters + f);
    const float* const powers = row + filter.x;
    const float4* const weights = (const float4*)(job.weights + filter.y);
    float sum = 0.0f;
    int k = 0;
    for (; k + 4 <= filter.z; k += 4) {
      const float4 w = load_constant(weights + k / 4);
      sum = fused_multiply_add(powers[k], w.x, sum), sum = fused_multiply_add(powers[k + 1], w.y, sum);
      sum = fused_multiply_add(powers[k + 2], w.z, sum), sum = fused_multiply_add(powers[k + 3], w.w, sum);
    }
    for (; k < filter.z; k++) sum = fused_multiply_add(powers[k], load_constant((const float*)weights + k), sum);
    sum = scaled(job, sum * unit);
    if (frame >= job.n_frames) continue;
    if (sum > largest) largest = sum;
    store(job, index, sum);
  }
  if (job.has_range) keep_largest(job, rows, largest);
}

// Three blocks per processor are worth one spilled register on sm_87.
// budget: 80 registers, 4 spill
extern "C" __global__ void __launch_bounds__(256, 3) mel_200(Job job) { make_tile<8, 25, 32, 8>(job); }
// budget: 128 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256, 2) mel_256(Job job) { make_tile<16, 16, 32, 8>(job); }
// budget: 128 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256, 2) mel_512(Job job) { make_tile<16, 32, 32, 8>(job); }
// budget: 255 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256, 1) mel_1024(Job job) { make_tile<32, 32, 16, 8>(job); }

// Clamps the values of item blockIdx.x to at least its largest minus the range.
// budget: 40 registers, 0 spill
extern "C" __global__ void mel_clamp(Job job) {
  const u64 item = blockIdx.x, len = job.n_frames * job.n_filters;
  const float* maxima = job.maxima + item * job.blocks_per_item;
  float largest = maxima[0];
  for (int b = 1; b < job.blocks_per_item; b++) largest = fmaxf(largest, maxima[b]);
  const float least = largest - job.range;
  for (u64 i = (u64)blockIdx.y * blockDim.x + threadIdx.x; i < len; i += (u64)gridDim.y * blockDim.x) {
    const u64 index = item * len + i;
    if (job.is_f16) {
      // Rounding is monotonic, so the clamp commutes with it.
      u16* const value = (u16*)job.values + index;
      if (f16_to_f32(f32_to_f16(least)) > f16_to_f32(*value)) *value = f32_to_f16(least);
    } else {
      float* const value = (float*)job.values + index;
      if (least > *value) *value = least;
    }
  }
}
