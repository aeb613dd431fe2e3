// Building blocks of voices: parameters, the functions of `math.rs`, envelope, filter and
// oscillators.
#pragma once
#include "device.cuh"

constexpr int TICK = 32;
constexpr int CHUNK = 512;
// Samples between which oscillators are reset to exact phases.
constexpr int PART = 8;
constexpr int N_PARTIALS = 8;
constexpr int N_SEGMENTS = 4;
constexpr u32 TONE = 0, PARTIALS = 1, DRUM = 2, NOISE = 3;
constexpr u32 NO_VOICE = 0xffffffffu;
constexpr u32 QUARTER = 1u << 30;

// From the age `first` on, a level is base + scale * 2^(-rate * (age - first)), until `last` unless
// it is cut short.
struct Segment {
  u32 first, last;
  float base, scale, rate;
};

struct Voice {
  u32 kind, mix;
  // The onset's sample, and the age at which the voice ends.
  u64 onset;
  u32 end, n_segments;
  Segment segments[N_SEGMENTS];
  float left, right;
  u64 increment, saw_increment;
  float period, sine, saw;
  float octaves, sweep, sweep_rate, lfo_depth, damping;
  u32 lfo_phase, lfo_increment;
  u32 seed;
  float mix_levels[3];
  float levels[N_PARTIALS], rates[N_PARTIALS];
  u32 drum_increment;
  float drop, drop_rate;
  u32 padding;
};

struct Control {
  float brightness, motion;
};

struct Params {
  const Voice* voices;
  // The voice of each lane, in warps of one kind.
  const u32* lanes;
  const float* step;
  // `n_controls` per mix: the initial control, then one per tick end; the last one stays.
  const Control* controls;
  // Per lane and chunk: the chunk's map (z1, z2, m11, m12, m21, m22), and then its initial state.
  float* states;
  int* sums;
  float* out;
  u64 position;
  u32 n_lanes, n_chunks, len;
  // Adjacent lanes of one mix: 8, 16 or 32.
  u32 group;
  // Every mix is one group, so nothing is summed in memory.
  u32 alone;
  u32 n_controls, controls_stride;
};

__device__ __forceinline__ float quarter_sine(float z) {
  const float square = z * z;
  float sum = 0.0001516717f;
  sum = fused_multiply_add(sum, square, -0.0046741436f);
  sum = fused_multiply_add(sum, square, 0.07968992f);
  sum = fused_multiply_add(sum, square, -0.6459638f);
  sum = fused_multiply_add(sum, square, 1.5707964f);
  return sum * z;
}

__device__ __forceinline__ float cosine(u32 phase) {
  const u32 magnitude = (i32)phase < 0 ? 0u - phase : phase;
  return quarter_sine((float)(i32)(QUARTER - magnitude) * 9.31322574615478515625e-10f);
}

__device__ __forceinline__ float sine(u32 phase) { return cosine(phase - QUARTER); }

__device__ __forceinline__ float power_of_two(float x) {
  x = fminf(fmaxf(x, -100.0f), 100.0f);
  const i32 whole = round_to_int(x);
  const float part = x - (float)whole;
  float sum = 0.00015461445f;
  sum = fused_multiply_add(sum, part, 0.0013400428f);
  sum = fused_multiply_add(sum, part, 0.009618057f);
  sum = fused_multiply_add(sum, part, 0.05550327f);
  sum = fused_multiply_add(sum, part, 0.2402265f);
  sum = fused_multiply_add(sum, part, 0.69314718f);
  sum = fused_multiply_add(sum, part, 1.0f);
  return __uint_as_float(__float_as_uint(sum) + ((u32)whole << 23));
}

__device__ __forceinline__ float fallen(float rate, float samples) {
  return power_of_two(fminf(-rate * samples, 0.0f));
}

// 1 / x for x of moderate size, within two units in the last place.
__device__ __forceinline__ float reciprocal(float x) {
#ifdef MELISMA_SHIM
  return 1.0f / x;
#else
  return __fdividef(1.0f, x);
#endif
}

__device__ __forceinline__ float white(u32 number) {
  u32 x = (number ^ number >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return (float)(i32)(x ^ x >> 16) * 4.65661287307739257813e-10f;
}

// ---- the band-limited saw -------------------------------------------------------------------------------------------

__device__ __forceinline__ float step_height(const float* table, float distance) {
  const float place = fminf(distance, 15.0f);
#ifdef MELISMA_SHIM
  const u32 index = (u32)place;
  const float x = place - (float)index;
#else
  // Rounded toward zero at 2^23, the integer part is in the lowest bits.
  const float shifted = __fadd_rz(place, 8388608.0f);
  const u32 index = __float_as_uint(shifted) & 15u;
  const float x = place - (shifted - 8388608.0f);
#endif
  float sum = table[4 * 16 + index];
#pragma unroll
  for (int power = 3; power >= 0; power--) sum = fused_multiply_add(sum, x, table[power * 16 + index]);
  return sum;
}

// `is_close` means that a step on the other side may be within reach too; out of reach it adds
// nothing.
__device__ __forceinline__ float saw_wave(const float* table, u32 phase, float period, bool is_close) {
  const float turn = (float)(i32)phase;
  const float distance = fabsf(turn) * period;
  float height = step_height(table, distance);
  if (is_close) height += 1.0f - step_height(table, fused_multiply_add(period, 4294967296.0f, -distance));
  return fused_multiply_add(turn, 4.65661287307739257813e-10f, -copysignf(height, turn));
}

// ---- the envelope ---------------------------------------------------------------------------------------------------

// The level's line in a tick, and the segment that it follows until `turn`.
struct Level {
  float value, slope, target;
  Segment now;
  u32 segment, turn;

  __device__ __forceinline__ float at(u32 age) const {
    return fused_multiply_add(now.scale, fallen(now.rate, (float)(age - now.first)), now.base);
  }

  // Sets a line from `age` toward the end of its tick or its segment.
  __device__ __forceinline__ void aim(const Voice& voice, u32 age, u32 tick_end) {
    while (segment + 1 < voice.n_segments && voice.segments[segment + 1].first <= age) segment++;
    turn = segment + 1 < voice.n_segments ? voice.segments[segment + 1].first : voice.end;
    now = voice.segments[segment];
    // A release cannot be foreseen: the line before it aims at the end of the tick.
    const u32 line_end = now.last < tick_end ? now.last : tick_end;
    value = at(age);
    target = at(line_end);
    slope = (target - value) * reciprocal((float)(line_end - age));
  }

  // Sets the next tick's line when no segment ends.
  __device__ __forceinline__ void go_on(u32 tick_end) {
    value = target;
    target = at(tick_end);
    slope = (target - value) * (1.0f / TICK);
  }
};

// ---- the filter -----------------------------------------------------------------------------------------------------

struct Coefficients {
  float a[3];
};

__device__ __forceinline__ Coefficients coefficients(const Voice& voice, Control control, u32 age) {
  float octaves =
      fused_multiply_add(voice.sweep, fallen(voice.sweep_rate, (float)age), voice.octaves + control.brightness);
  const float wave = cosine(age * voice.lfo_increment + voice.lfo_phase);
  octaves = fused_multiply_add(wave, voice.lfo_depth * control.motion, octaves);
  const float half_turn = power_of_two(fminf(fmaxf(octaves, -14.0f), -1.152003f)) * 2.0f;
  const float s = quarter_sine(half_turn), c = quarter_sine(1.0f - half_turn);
  const float over = reciprocal(fused_multiply_add(s, fused_multiply_add(c, voice.damping, s), c * c));
  return {{c * over * c, s * over * c, s * over * s}};
}

// Coefficients on their lines through a tick.
struct FilterLines {
  float a[3], slopes[3];
  Coefficients target;

  // Sets the lines of the tick whose first sample has the age `age`, which may be before the onset.
  // `known` means that `target` is the start of the line; `controls` are those at the ends of the
  // tick.
  __device__ __forceinline__ void aim(const Voice& voice, const Control* controls, i32 age, bool known) {
    const i32 first = age > 0 ? age : 0;
    const Coefficients start = known ? target : coefficients(voice, controls[age < 0], (u32)first);
    target = coefficients(voice, controls[1], (u32)(age + TICK));
    const float inverse = reciprocal((float)(age + TICK - first));
#pragma unroll
    for (int i = 0; i < 3; i++) {
      slopes[i] = (target.a[i] - start.a[i]) * inverse;
      a[i] = fused_multiply_add((float)(age - first), slopes[i], start.a[i]);
    }
  }

  __device__ __forceinline__ void advance() {
#pragma unroll
    for (int i = 0; i < 3; i++) a[i] += slopes[i];
  }
};

struct State {
  float s1, s2;

  // Band-pass and low-pass of one sample.
  __device__ __forceinline__ float2 next(const float (&a)[3], float input) {
    const float v3 = input - s2;
    const float v1 = fused_multiply_add(s1, a[0], v3 * a[1]);
    const float v2 = fused_multiply_add(v3, a[2], fused_multiply_add(s1, a[1], s2));
    s1 = fused_multiply_add(2.0f, v1, -s1);
    s2 = fused_multiply_add(2.0f, v2, -s2);
    return make_float2(v1, v2);
  }
};

// The effect of a chunk on a state: the final state of a filter that starts at rest, and the image
// of each unit state.
struct Map {
  State z, m1, m2;

  __device__ __forceinline__ void reset() {
    z = {0.0f, 0.0f};
    m1 = {1.0f, 0.0f};
    m2 = {0.0f, 1.0f};
  }

  __device__ __forceinline__ void next(const float (&a)[3], float input) {
    z.next(a, input);
    m1.next(a, 0.0f);
    m2.next(a, 0.0f);
  }

  __device__ __forceinline__ State of(State s) const {
    return {fused_multiply_add(m1.s1, s.s1, fused_multiply_add(m2.s1, s.s2, z.s1)),
            fused_multiply_add(m1.s2, s.s1, fused_multiply_add(m2.s2, s.s2, z.s2))};
  }
};

// ---- oscillators ----------------------------------------------------------------------------------------------------

// Phases are exact at the start of a part; within it the sine follows its second difference.
struct Tone {
  u64 phase, saw_phase, increment, saw_increment;
  float period, sine_level, saw_level;
  bool is_close;
  // The sine, its last difference, and the change of that.
  float wave, difference, half, bend;
  u32 half_step, saw;

  __device__ __forceinline__ explicit Tone(const Voice& voice)
      : phase(0),
        saw_phase(0),
        increment(voice.increment),
        saw_increment(voice.saw_increment),
        period(voice.period),
        sine_level(voice.sine),
        saw_level(voice.saw),
        is_close(voice.period * 4294967296.0f < 30.0f),
        wave(0.0f),
        difference(0.0f),
        saw(0) {
    half_step = (u32)(increment >> 33);
    half = -2.0f * sine(half_step);
    bend = -half * half;
  }

  __device__ __forceinline__ void begin_tick(i64 age) {
    phase = (3ull << 62) + increment * (u64)age;
    saw_phase = (1ull << 63) + saw_increment * (u64)age;
  }

  __device__ __forceinline__ void begin_part() {
    const u32 turn = (u32)(phase >> 32);
    wave = cosine(turn);
    difference = half * sine(turn - half_step);
    saw = (u32)(saw_phase >> 32);
    phase += increment * PART;
    saw_phase += saw_increment * PART;
  }

  __device__ __forceinline__ float next(const float* table) {
    const float ramp = saw_wave(table, saw, period, is_close);
    const float input = fused_multiply_add(wave, sine_level, ramp * saw_level);
    difference = fused_multiply_add(bend, wave, difference);
    wave += difference;
    saw += (u32)(saw_increment >> 32);
    return input;
  }
};

// Σ a_k sin(k φ) = sin φ P(cos 2φ) + sin 2φ Q(cos 2φ) with third-degree polynomials, whose
// coefficients move on lines.
struct Harmonics {
  u64 phase, increment;
  float levels[N_PARTIALS], falls[N_PARTIALS];
  float p[N_PARTIALS], slopes[N_PARTIALS];
  float c, s, turn_c, turn_s;

  __device__ __forceinline__ explicit Harmonics(const Voice& voice)
      : phase(0), increment(voice.increment), c(0.0f), s(0.0f) {
    const u32 step = (u32)(increment >> 32);
    turn_c = cosine(step);
    turn_s = sine(step);
#pragma unroll
    for (int k = 0; k < N_PARTIALS; k++) falls[k] = fallen(voice.rates[k], (float)TICK);
  }

  // P and Q for the levels.
  __device__ __forceinline__ static void shape(const float (&a)[N_PARTIALS], float (&p)[N_PARTIALS]) {
    p[0] = a[0] + a[2] - (a[4] + a[6]);
    p[1] = 2.0f * (a[2] + a[4]) - 4.0f * a[6];
    p[2] = 4.0f * (a[4] + a[6]);
    p[3] = 8.0f * a[6];
    p[4] = a[1] - a[5];
    p[5] = 2.0f * a[3] - 4.0f * a[7];
    p[6] = 4.0f * a[5];
    p[7] = 8.0f * a[7];
  }

  __device__ __forceinline__ void aim(const Voice& voice, i32 age, bool known) {
    const u32 first = age > 0 ? (u32)age : 0u, end = (u32)(age + TICK);
    if (!known) {
#pragma unroll
      for (int k = 0; k < N_PARTIALS; k++) levels[k] = voice.levels[k] * fallen(voice.rates[k], (float)first);
    }
    shape(levels, p);
#pragma unroll
    for (int k = 0; k < N_PARTIALS; k++) {
      if (age >= 0)
        levels[k] *= falls[k];
      else
        levels[k] = voice.levels[k] * fallen(voice.rates[k], (float)end);
    }
    shape(levels, slopes);
    const float inverse = reciprocal((float)(end - first)), before = (float)(age - (i32)first);
#pragma unroll
    for (int k = 0; k < N_PARTIALS; k++) {
      slopes[k] = (slopes[k] - p[k]) * inverse;
      p[k] = fused_multiply_add(before, slopes[k], p[k]);
    }
    phase = increment * (u64)(i64)age;
  }

  __device__ __forceinline__ void begin_part() {
    const u32 turn = (u32)(phase >> 32);
    c = cosine(turn);
    s = sine(turn);
    phase += increment * PART;
  }

  __device__ __forceinline__ float next() {
    const float twice = s + s, second = twice * c, x = fused_multiply_add(-twice, s, 1.0f);
    float odd = p[3], even = p[7];
#pragma unroll
    for (int i = 2; i >= 0; i--) {
      odd = fused_multiply_add(odd, x, p[i]);
      even = fused_multiply_add(even, x, p[4 + i]);
    }
#pragma unroll
    for (int k = 0; k < N_PARTIALS; k++) p[k] += slopes[k];
    const float sample = fused_multiply_add(s, odd, second * even);
    const float turned = fused_multiply_add(c, turn_c, -(s * turn_s));
    s = fused_multiply_add(s, turn_c, c * turn_s);
    c = turned;
    return sample;
  }
};

__device__ __forceinline__ u32 drum_phase(const Voice& voice, u32 age) {
  const float turns = voice.drop * (1.0f - fallen(voice.drop_rate, (float)age));
  const float part = turns - (float)round_to_int(turns);
  return age * voice.drum_increment + ((u32)round_to_int(part * 1073741824.0f) << 2) + (3u << 30);
}
