// Samples to mel spectrograms. A block makes `frames_per_block` frames of one item: their samples go to shared memory once,
// each frame is transformed there by its own threads, and the block's values leave in rows.
// More than 400 lines because the stages of one fused kernel share its shared-memory layout.
//
// The transform is Stockham's, as in fft.rs, of n_fft / 2 complex elements for even sizes. A pass reads all of its elements into
// registers before it writes, so one buffer is enough. Element i lies at i + i / 8, which keeps the writes of the first passes
// off each other's banks.
#include "device.cuh"

struct Filter { i32 first_bin, first_weight, n_bins; };
struct Pass { i32 radix, groups, stride, twiddles; };

// What a launch needs; `Arguments` of cuda.rs.
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

// Place of element i. The power of bin n_fft / 2 takes one more.
__device__ __forceinline__ int place(int i) { return i + (i >> 3); }
// At least 32: sums of the block's threads use the same memory.
__device__ __forceinline__ int frame_stride(int len) { return max(place(len) + 5, 32); }

__device__ __forceinline__ float sample_at(const Job& job, u64 item, i64 at) {
    const i64 n = (i64)job.n_samples;
    if (at < 0 || at >= n) {
        if (job.edge == 0 || n == 0) return 0.0f;
        const i64 period = job.edge == 1 ? 2 * (n - 1) : 2 * n;
        if (period == 0) {
            at = 0;
        } else {
            at %= period;
            if (at < 0) at += period;
            const i64 back = job.edge == 1 ? period - at : period - 1 - at;
            at = back < at ? back : at;
        }
    }
    const u64 index = item * job.n_samples + (u64)at;
    if (job.is_i16) return (float)((const i16*)job.samples)[index] * (1.0f / 32768.0f);
    return ((const float*)job.samples)[index];
}

// A frame's sample, prepared and windowed.
struct Frame {
    const float* x;
    const float* window;
    float mean, pre_emphasis;
    i32 prepares;
    __device__ __forceinline__ float operator()(int n) const {
        float value = x[n];
        if (prepares) {
            const float before = x[n > 0 ? n - 1 : 0] - mean;
            value = fused_multiply_add(-before, pre_emphasis, value - mean);
        }
        return value * window[n];
    }
};

// ---- butterflies ----------------------------------------------------------------------------------------------------

__device__ __forceinline__ void times(float& re, float& im, float2 w) {
    const float x = re;
    re = fused_multiply_add(-im, w.y, x * w.x);
    im = fused_multiply_add(im, w.x, x * w.y);
}

template <int R>
__device__ __forceinline__ void butterfly(float (&a)[R], float (&b)[R]);

template <>
__device__ __forceinline__ void butterfly<2>(float (&a)[2], float (&b)[2]) {
    const float x = a[0], y = b[0];
    a[0] = x + a[1], b[0] = y + b[1];
    a[1] = x - a[1], b[1] = y - b[1];
}

template <>
__device__ __forceinline__ void butterfly<3>(float (&a)[3], float (&b)[3]) {
    const float sine = 0.8660254f;
    const float sum_a = a[1] + a[2], sum_b = b[1] + b[2];
    const float dif_a = (a[1] - a[2]) * sine, dif_b = (b[1] - b[2]) * sine;
    const float mid_a = fused_multiply_add(sum_a, -0.5f, a[0]), mid_b = fused_multiply_add(sum_b, -0.5f, b[0]);
    a[0] += sum_a, b[0] += sum_b;
    a[1] = mid_a + dif_b, b[1] = mid_b - dif_a;
    a[2] = mid_a - dif_b, b[2] = mid_b + dif_a;
}

template <>
__device__ __forceinline__ void butterfly<4>(float (&a)[4], float (&b)[4]) {
    const float p = a[0] + a[2], q = b[0] + b[2], r = a[0] - a[2], s = b[0] - b[2];
    const float t = a[1] + a[3], u = b[1] + b[3], v = a[1] - a[3], w = b[1] - b[3];
    a[0] = p + t, b[0] = q + u;
    a[2] = p - t, b[2] = q - u;
    a[1] = r + w, b[1] = s - v;
    a[3] = r - w, b[3] = s + v;
}

template <>
__device__ __forceinline__ void butterfly<5>(float (&a)[5], float (&b)[5]) {
    const float c1 = 0.309017f, c2 = -0.809017f, s1 = 0.9510565f, s2 = 0.58778524f;
    const float pa = a[1] + a[4], pb = b[1] + b[4], qa = a[2] + a[3], qb = b[2] + b[3];
    const float ra = a[1] - a[4], rb = b[1] - b[4], sa = a[2] - a[3], sb = b[2] - b[3];
    const float near_a = fused_multiply_add(qa, c2, fused_multiply_add(pa, c1, a[0]));
    const float near_b = fused_multiply_add(qb, c2, fused_multiply_add(pb, c1, b[0]));
    const float far_a = fused_multiply_add(qa, c1, fused_multiply_add(pa, c2, a[0]));
    const float far_b = fused_multiply_add(qb, c1, fused_multiply_add(pb, c2, b[0]));
    const float u = fused_multiply_add(sa, s2, ra * s1), v = fused_multiply_add(sb, s2, rb * s1);
    const float w = fused_multiply_add(sa, -s1, ra * s2), x = fused_multiply_add(sb, -s1, rb * s2);
    a[0] += pa + qa, b[0] += pb + qb;
    a[1] = near_a + v, b[1] = near_b - u;
    a[4] = near_a - v, b[4] = near_b + u;
    a[2] = far_a + x, b[2] = far_b - w;
    a[3] = far_a - x, b[3] = far_b + w;
}

template <>
__device__ __forceinline__ void butterfly<8>(float (&a)[8], float (&b)[8]) {
    const float h = 0.70710678f;
    float even_a[4] = {a[0] + a[4], a[1] + a[5], a[2] + a[6], a[3] + a[7]};
    float even_b[4] = {b[0] + b[4], b[1] + b[5], b[2] + b[6], b[3] + b[7]};
    const float ta = a[0] - a[4], tb = b[0] - b[4], ua = a[2] - a[6], ub = b[2] - b[6];
    const float va = a[1] - a[5], vb = b[1] - b[5], wa = a[3] - a[7], wb = b[3] - b[7];
    butterfly<4>(even_a, even_b);
    a[0] = even_a[0], b[0] = even_b[0];
    a[2] = even_a[1], b[2] = even_b[1];
    a[4] = even_a[2], b[4] = even_b[2];
    a[6] = even_a[3], b[6] = even_b[3];
    const float da = va - wa, db = vb - wb, sa = va + wa, sb = vb + wb;
    const float down_a = da + sb, down_b = db - sa, up_a = da - sb, up_b = db + sa;
    const float low_a = ta + ub, low_b = tb - ua, high_a = ta - ub, high_b = tb + ua;
    a[1] = fused_multiply_add(down_a, h, low_a), b[1] = fused_multiply_add(down_b, h, low_b);
    a[5] = fused_multiply_add(down_a, -h, low_a), b[5] = fused_multiply_add(down_b, -h, low_b);
    a[3] = fused_multiply_add(up_a, -h, high_a), b[3] = fused_multiply_add(up_b, -h, high_b);
    a[7] = fused_multiply_add(up_a, h, high_a), b[7] = fused_multiply_add(up_b, h, high_b);
}

// ---- passes ---------------------------------------------------------------------------------------------------------

// Where a pass reads: the frame for the first, the buffer for the others.
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

// One pass of a transform whose size the compiler knows.
template <int LEN, int R, int STRIDE, int THREADS, class From>
__device__ __forceinline__ void pass(From from, float* re, float* im, int thread, const float2* twiddles) {
    constexpr int GROUPS = LEN / STRIDE / R, COUNT = LEN / R, EACH = (COUNT + THREADS - 1) / THREADS;
    float a[EACH][R], b[EACH][R];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int i = thread + e * THREADS, q = i % STRIDE, p = i / STRIDE;
        if (i < COUNT) {
#pragma unroll
            for (int j = 0; j < R; j++) from(q + STRIDE * (p + GROUPS * j), a[e][j], b[e][j]);
        }
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int i = thread + e * THREADS, q = i % STRIDE, p = i / STRIDE;
        if (i < COUNT) {
            butterfly<R>(a[e], b[e]);
#pragma unroll
            for (int k = 0; k < R; k++) {
                if (GROUPS > 1 && k > 0) times(a[e][k], b[e][k], twiddles[p * (R - 1) + k - 1]);
                const int at = place(q + STRIDE * (R * p + k));
                re[at] = a[e][k], im[at] = b[e][k];
            }
        }
    }
    __syncthreads();
}

// One pass by its definition: any radix, between two buffers.
template <class From>
__device__ __forceinline__ void any_pass(From from, float* re, float* im, int thread, int threads, const Pass& pass,
                                         const float2* twiddles) {
    const int len = pass.radix * pass.groups * pass.stride;
    for (int o = thread; o < len; o += threads) {
        const int q = o % pass.stride, k = o / pass.stride % pass.radix, p = o / pass.stride / pass.radix;
        float sum_a, sum_b;
        from(q + pass.stride * p, sum_a, sum_b);
        // Roots of unity of this radix lie behind the pass's twiddles.
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

// ---- the stages around the transform --------------------------------------------------------------------------------

__device__ __forceinline__ float power_of(const Job& job, float re, float im) {
    const float square = fused_multiply_add(re, re, im * im);
    return job.is_power ? square : sqrtf(square + job.epsilon);
}

// Powers in place of the transform's elements: bin k at place(k) of `re`.
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

__device__ __forceinline__ void store(const Job& job, u64 index, float value) {
    if (job.is_f16) ((u16*)job.values)[index] = f32_to_f16(value);
    else ((float*)job.values)[index] = value;
}

// The filters' sums over the powers of all frames of the block.
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
        if (job.is_log) {
            // NaN stays.
            const float above = sum < job.floor ? job.floor : sum;
            sum = fused_multiply_add(logf(above), job.gain, job.offset);
        }
        if (sum > largest) largest = sum;
        const u64 base = item * job.n_frames * job.n_filters;
        store(job, job.is_time_first ? base + frame * job.n_filters + f : base + f * job.n_frames + frame, sum);
    }
    if (!job.has_range) return;
    __syncthreads();
    powers[threadIdx.x] = largest;
    __syncthreads();
    for (u32 n = blockDim.x; n > 1; n = (n + 1) / 2) {
        const u32 half = (n + 1) / 2;
        if (threadIdx.x < n / 2) powers[threadIdx.x] = fmaxf(powers[threadIdx.x], powers[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0) job.maxima[blockIdx.x] = powers[0];
}

// The means of the block's frames, each a sum in a fixed order.
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
    const Frame frame = {x, job.window, mean, job.pre_emphasis, job.removes_mean || job.pre_emphasis != 0.0f};
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

template <int LEN, int THREADS, int A, int B, int C, int D>
struct Known {
    const Job& job;
    __device__ __forceinline__ float* operator()(FromFrame from, float* re, int stride, int thread) const {
        float* const im = re + stride;
        const float2* w = job.twiddles;
        pass<LEN, A, 1, THREADS>(from, re, im, thread, w);
        w += LEN / A * (A - 1);
        pass<LEN, B, A, THREADS>(FromBuffer{re, im}, re, im, thread, w);
        w += LEN / A / B * (B - 1);
        pass<LEN, C, A * B, THREADS>(FromBuffer{re, im}, re, im, thread, w);
        if constexpr (D > 1) {
            w += LEN / A / B / C * (C - 1);
            pass<LEN, D, A * B * C, THREADS>(FromBuffer{re, im}, re, im, thread, w);
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
// budget: 80 registers, 0 spill
extern "C" __global__ void __launch_bounds__(320) mel_200(Job job) {
    make_frames(job, 200, 40, 1, Known<200, 40, 8, 5, 5, 1>{job});
}
// budget: 80 registers, 0 spill
extern "C" __global__ void __launch_bounds__(512) mel_256(Job job) {
    make_frames(job, 256, 64, 1, Known<256, 64, 4, 8, 8, 1>{job});
}
// budget: 80 registers, 0 spill
extern "C" __global__ void __launch_bounds__(512) mel_512(Job job) {
    make_frames(job, 512, 64, 1, Known<512, 64, 8, 8, 8, 1>{job});
}
// budget: 80 registers, 0 spill
extern "C" __global__ void __launch_bounds__(512) mel_1024(Job job) {
    make_frames(job, 1024, 128, 1, Known<1024, 128, 4, 4, 8, 8>{job});
}

// Values of item blockIdx.x to at least its largest less the range.
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
