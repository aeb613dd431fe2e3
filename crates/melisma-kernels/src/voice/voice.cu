// Voices x time in one launch: a lane is a voice, a warp is 32 voices of one kind in one chunk of time, and sums over the voices
// of a mix are made in registers. The filter's state crosses chunks as an affine map: `voice_states` makes the maps,
// `voice_scan` chains them, `voice_render` begins every chunk with its state. Longer than 400 lines because maps and sound
// are made of the same oscillators.
#include "device.cuh"

constexpr int TICK = 32;
constexpr int CHUNK = 512;
constexpr int N_PARTIALS = 8;
constexpr int N_SEGMENTS = 4;
constexpr u32 TONE = 0, PARTIALS = 1, DRUM = 2, NOISE = 3;
constexpr u32 NO_VOICE = 0xffffffffu;

// A level is base + scale * 2^(-rate * (age - first)) from the age `first` on; unless it is cut short, until `last`.
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

struct Params {
  const Voice* voices;
  // Voice of each lane, in warps of one kind.
  const u32* lanes;
  const float* step;
  // Per lane and chunk: the chunk's map (z1, z2, m11, m12, m21, m22), and then its first state.
  float* states;
  int* sums;
  float* out;
  u64 position;
  u32 n_lanes, n_chunks, len;
  // Lanes of a mix that lie side by side: 8, 16 or 32.
  u32 group;
  // Every mix is one group: nothing to add up in memory.
  u32 alone;
  float brightness, motion;
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
  return quarter_sine((float)(i32)((1u << 30) - magnitude) * 9.31322574615478515625e-10f);
}

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

__device__ __forceinline__ float fallen(float rate, float samples) { return power_of_two(fminf(-rate * samples, 0.0f)); }

struct Coefficients {
  float a[3];
};

__device__ __forceinline__ Coefficients coefficients(const Voice& voice, const Params& params, u32 age) {
  float octaves = fused_multiply_add(voice.sweep, fallen(voice.sweep_rate, (float)age), voice.octaves + params.brightness);
  const float wave = cosine(age * voice.lfo_increment + voice.lfo_phase);
  octaves = fused_multiply_add(wave, voice.lfo_depth * params.motion, octaves);
  const float half_turn = power_of_two(fminf(fmaxf(octaves, -14.0f), -1.152003f)) * 2.0f;
  const float s = quarter_sine(half_turn), c = quarter_sine(1.0f - half_turn);
  const float over = 1.0f / fused_multiply_add(s, fused_multiply_add(c, voice.damping, s), c * c);
  return {{c * over * c, s * over * c, s * over * s}};
}

__device__ __forceinline__ float step_height(const float* table, float distance) {
  const float place = fminf(distance, 15.0f);
  const i32 index = (i32)place;
  const float x = place - (float)index;
  float sum = table[4 * 16 + index];
#pragma unroll
  for (int power = 3; power >= 0; power--) sum = fused_multiply_add(sum, x, table[power * 16 + index]);
  return sum;
}

// `is_close` says that a step on the other side may be within reach too; out of reach it adds nothing.
__device__ __forceinline__ float saw_wave(const float* table, u32 phase, float period, bool is_close) {
  const float turn = (float)(i32)phase;
  const float distance = fabsf(turn) * period;
  float height = step_height(table, distance);
  if (is_close) height += 1.0f - step_height(table, period * 4294967296.0f - distance);
  return turn * 4.65661287307739257813e-10f - copysignf(height, turn);
}

__device__ __forceinline__ float white(u32 number) {
  u32 x = (number ^ number >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return (float)(i32)(x ^ x >> 16) * 4.65661287307739257813e-10f;
}

// The level's line in the tick around an age.
struct Level {
  float value, slope;
  u32 segment, turn;
};

__device__ __forceinline__ float level_at(const Segment& segment, u32 age) {
  return fused_multiply_add(segment.scale, fallen(segment.rate, (float)(age - segment.first)), segment.base);
}

// A line from `age` on, toward the end of its tick or its segment. Not inlined: it is rare inside of ticks, and large.
__device__ __noinline__ float4 aim_line(const Voice* voice, u32 segment, u32 age, u32 tick_end) {
  while (segment + 1 < voice->n_segments && voice->segments[segment + 1].first <= age) segment++;
  const u32 turn = segment + 1 < voice->n_segments ? voice->segments[segment + 1].first : voice->end;
  const Segment now = voice->segments[segment];
  // A release comes unforeseen: the line before it aims at the end of the tick.
  const u32 line_end = now.last < tick_end ? now.last : tick_end;
  const float value = level_at(now, age);
  const float slope = (level_at(now, line_end) - value) / (float)(line_end - age);
  return make_float4(value, slope, __uint_as_float(segment), __uint_as_float(turn));
}

__device__ __forceinline__ Level aim_level(const Voice& voice, u32 segment, u32 age, u32 tick_end) {
  const float4 line = aim_line(&voice, segment, age, tick_end);
  return {line.x, line.y, __float_as_uint(line.z), __float_as_uint(line.w)};
}

// The filter's coefficients on their lines through a tick.
struct FilterLines {
  float a[3], slopes[3];
  Coefficients target;

  // `age` is that of the tick's first sample and may be before the onset; `known` says that `target` is its value.
  __device__ __forceinline__ void aim(const Voice& voice, const Params& params, i32 age, bool known) {
    const i32 first = age > 0 ? age : 0;
    const Coefficients start = known ? target : coefficients(voice, params, (u32)first);
    target = coefficients(voice, params, (u32)(age + TICK));
    const float inverse = 1.0f / (float)(age + TICK - first);
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
    s1 = v1 + v1 - s1;
    s2 = v2 + v2 - s2;
    return make_float2(v1, v2);
  }
};

// Oscillators of a tone, from any age.
struct Tone {
  u64 phase, saw_phase, increment, saw_increment;
  float period, sine, saw;
  bool is_close;

  __device__ __forceinline__ explicit Tone(const Voice& voice)
      : phase(0), saw_phase(0), increment(voice.increment), saw_increment(voice.saw_increment), period(voice.period),
        sine(voice.sine), saw(voice.saw), is_close(voice.period * 4294967296.0f < 30.0f) {}

  __device__ __forceinline__ void seek(i64 age) {
    phase = (3ull << 62) + increment * (u64)age;
    saw_phase = (1ull << 63) + saw_increment * (u64)age;
  }

  __device__ __forceinline__ float next(const float* table) {
    const float ramp = saw_wave(table, (u32)(saw_phase >> 32), period, is_close);
    const float input = fused_multiply_add(cosine((u32)(phase >> 32)), sine, ramp * saw);
    phase += increment;
    saw_phase += saw_increment;
    return input;
  }
};

__device__ __forceinline__ u32 drum_phase(const Voice& voice, u32 age) {
  const float turns = voice.drop * (1.0f - fallen(voice.drop_rate, (float)age));
  const float part = turns - (float)round_to_int(turns);
  return age * voice.drum_increment + ((u32)round_to_int(part * 1073741824.0f) << 2) + (3u << 30);
}

// Sums of 8 samples over the 8 lanes of a group; lane i ends with sample i.
__device__ __forceinline__ int transpose_sum(int (&x)[8], u32 lane) {
#pragma unroll
  for (int width = 4; width > 0; width /= 2) {
    const bool upper = lane & width;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (i >= width) break;
      const int keep = upper ? x[i + width] : x[i], give = upper ? x[i] : x[i + width];
      x[i] = keep + shfl_xor(FULL_WARP, give, (u32)width);
    }
  }
  return x[0];
}

// What a lane's samples go to.
struct Sink {
  int left[8], right[8];

  __device__ __forceinline__ void flush(const Params& params, u32 mix, u64 at, u32 lane) {
    int sum_left = transpose_sum(left, lane), sum_right = transpose_sum(right, lane);
    for (u32 width = 8; width < params.group; width *= 2) {
      sum_left += shfl_xor(FULL_WARP, sum_left, width);
      sum_right += shfl_xor(FULL_WARP, sum_right, width);
    }
    const u64 sample = at + (lane & 7);
    if ((lane & (params.group - 1)) >= 8 || mix == NO_VOICE || sample >= params.len) return;
    const u64 place = 2 * ((u64)mix * params.len + sample);
    if (params.alone) {
      *reinterpret_cast<float2*>(params.out + place) =
          make_float2((float)sum_left * 5.9604644775390625e-8f, (float)sum_right * 5.9604644775390625e-8f);
    } else if (sum_left | sum_right) {
      atomicAdd(params.sums + place, sum_left);
      atomicAdd(params.sums + place + 1, sum_right);
    }
  }
};

// A voice in a chunk: what is kept in registers.
template <u32 KIND>
struct Player {
  Tone tone;
  State state;
  FilterLines filter;
  Level level;
  float levels[N_PARTIALS], slopes[N_PARTIALS], mix_levels[3];
  u64 phase, increment;
  u32 drum, drum_step, seed;

  __device__ __forceinline__ explicit Player(const Voice& voice)
      : tone(voice), state{0.0f, 0.0f}, level{0.0f, 0.0f, 0, 0}, phase(0), increment(voice.increment), drum(0), drum_step(0),
        seed(voice.seed) {
    for (int i = 0; i < 3; i++) mix_levels[i] = voice.mix_levels[i];
  }

  // Lines and phases of the tick whose first sample has the age `age0`; before the onset lines are followed backwards.
  __device__ __forceinline__ void aim(const Voice& voice, const Params& params, i32 age0, bool known) {
    const u32 first = age0 > 0 ? (u32)age0 : 0u, end = (u32)(age0 + TICK);
    const float before = (float)(age0 - (i32)first), inverse = 1.0f / (float)(end - first);
    level = aim_level(voice, level.segment, first, end);
    level.value = fused_multiply_add(before, level.slope, level.value);
    if (KIND == TONE || KIND == NOISE) filter.aim(voice, params, age0, known && age0 > 0);
    if (KIND == TONE) tone.seek(age0);
    if (KIND == PARTIALS) {
      phase = increment * (u64)(i64)age0;
#pragma unroll
      for (int k = 0; k < N_PARTIALS; k++) {
        const float start = voice.levels[k] * fallen(voice.rates[k], (float)first);
        slopes[k] = (voice.levels[k] * fallen(voice.rates[k], (float)end) - start) * inverse;
        levels[k] = fused_multiply_add(before, slopes[k], start);
      }
    }
    if (KIND == DRUM) {
      const u32 start = drum_phase(voice, first), last = drum_phase(voice, end);
      drum_step = (u32)round_to_int((float)(i32)(last - start) / (float)(end - first));
      drum = start - drum_step * (first - (u32)age0);
    }
  }

  // One sample before level and gains; `heard` is false before the onset and after the end.
  __device__ __forceinline__ float next(const float* table, i32 age, bool heard) {
    if (KIND == TONE) {
      const float input = tone.next(table);
      const float low = state.next(filter.a, heard ? input : 0.0f).y;
      filter.advance();
      return low;
    }
    if (KIND == NOISE) {
      const float input = heard ? white(seed + (u32)age) : 0.0f;
      const float2 outputs = state.next(filter.a, input);
      filter.advance();
      return fused_multiply_add(outputs.y, mix_levels[2], fused_multiply_add(outputs.x, mix_levels[1], input * mix_levels[0]));
    }
    if (KIND == DRUM) {
      const float wave = cosine(drum);
      drum += drum_step;
      return wave;
    }
    // Clenshaw's recurrence for sin φ times polynomials in cos φ.
    const u32 turn = (u32)(phase >> 32);
    const float sine = cosine(turn - (1u << 30)), c = cosine(turn), twice = c + c;
    phase += increment;
    float b1 = levels[N_PARTIALS - 1], b2 = 0.0f;
#pragma unroll
    for (int k = N_PARTIALS - 2; k >= 0; k--) {
      const float b = fused_multiply_add(twice, b1, levels[k] - b2);
      b2 = b1;
      b1 = b;
    }
#pragma unroll
    for (int k = 0; k < N_PARTIALS; k++) levels[k] += slopes[k];
    return sine * b1;
  }
};

template <u32 KIND>
__device__ void render(const Params& params, const float* table, const Voice& voice, bool present, u32 mix, u32 lane_index, u32 chunk) {
  const u32 lane = lane_id(), end = voice.end;
  const u64 onset = voice.onset, chunk_start = params.position + (u64)chunk * CHUNK;
  const float left = voice.left, right = voice.right;
  Player<KIND> player(voice);
  if (KIND == TONE || KIND == NOISE) {
    const float* first = params.states + 6ull * ((u64)chunk * params.n_lanes + lane_index);
    player.state = {first[0], first[1]};
  }
  Sink sink;
  bool known = false;
  for (int tick = 0; tick < CHUNK / TICK; tick++) {
    const i64 wide_age = (i64)(chunk_start + tick * TICK - onset);
    const bool sounds = present && wide_age + TICK > 0 && wide_age < (i64)end;
    const u64 at = (u64)chunk * CHUNK + tick * TICK;
    if (at >= params.len) return;
    if (!ballot(FULL_WARP, sounds)) {
      known = false;
      if (params.alone) {
        for (int part = 0; part < TICK; part += 8) {
#pragma unroll
          for (int i = 0; i < 8; i++) sink.left[i] = sink.right[i] = 0;
          sink.flush(params, mix, at + part, lane);
        }
      }
      continue;
    }
    const i32 age0 = sounds ? (i32)wide_age : 0;
    player.aim(voice, params, age0, known && sounds);
    known = sounds;
    const bool plain = !sounds || (age0 >= 0 && player.level.turn >= (u32)(age0 + TICK));
    const State rest = player.state;
    if (ballot(FULL_WARP, plain) == FULL_WARP) {
      // No voice begins, turns or ends in this tick.
      const float own_left = sounds ? left : 0.0f, own_right = sounds ? right : 0.0f;
      for (int part = 0; part < TICK; part += 8) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
          const float sample = fmaxf(fminf(player.next(table, age0 + part + i, true) * player.level.value, 3.9f), -3.9f);
          player.level.value += player.level.slope;
          sink.left[i] = round_to_int(sample * own_left);
          sink.right[i] = round_to_int(sample * own_right);
        }
        sink.flush(params, mix, at + part, lane);
      }
      if (!sounds) player.state = rest;
      continue;
    }
    for (int part = 0; part < TICK; part += 8) {
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const i32 age = age0 + part + i;
        const bool heard = sounds && age >= 0 && (u32)age < end;
        if (heard && (u32)age == player.level.turn) player.level = aim_level(voice, player.level.segment, (u32)age, (u32)(age0 + TICK));
        const float sample = fmaxf(fminf(player.next(table, age, heard) * player.level.value, 3.9f), -3.9f);
        player.level.value += player.level.slope;
        sink.left[i] = heard ? round_to_int(sample * left) : 0;
        sink.right[i] = heard ? round_to_int(sample * right) : 0;
      }
      sink.flush(params, mix, at + part, lane);
    }
  }
}

__device__ __forceinline__ void load_table(float* table, const float* from) {
  for (u32 i = threadIdx.x; i < 80; i += blockDim.x) table[i] = from[i];
  __syncthreads();
}

// Grid: x over warps of lanes, y over chunks.
// budget: 88 registers, 16 spill
extern "C" __global__ void __launch_bounds__(128) voice_render(Params params) {
  __shared__ float table[80];
  load_table(table, params.step);
  const u32 lane_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (lane_index / 32 * 32 >= params.n_lanes) return;
  for (u32 chunk = blockIdx.y; chunk < params.n_chunks; chunk += gridDim.y) {
    const u32 index = params.lanes[lane_index];
    // An empty lane takes the kind of its warp's first, which is never empty.
    const u32 leader = shfl_idx(FULL_WARP, index, 0);
    const Voice& voice = params.voices[index == NO_VOICE ? leader : index];
    const bool present = index != NO_VOICE;
    // All lanes of a group are of one mix, also those that are empty, and its first lane is not.
    const u32 mix = shfl_idx(FULL_WARP, present ? voice.mix : NO_VOICE, lane_id() & ~(params.group - 1));
    switch (params.voices[leader].kind) {
      case TONE: render<TONE>(params, table, voice, present, mix, lane_index, chunk); break;
      case PARTIALS: render<PARTIALS>(params, table, voice, present, mix, lane_index, chunk); break;
      case DRUM: render<DRUM>(params, table, voice, present, mix, lane_index, chunk); break;
      default: render<NOISE>(params, table, voice, present, mix, lane_index, chunk); break;
    }
  }
}

// The map of a chunk: what a filter that begins at rest ends with, and what becomes of each unit state.
// budget: 56 registers, 0 spill
extern "C" __global__ void __launch_bounds__(128) voice_states(Params params) {
  __shared__ float table[80];
  load_table(table, params.step);
  const u32 lane_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (lane_index >= params.n_lanes) return;
  const u32 index = params.lanes[lane_index];
  if (index == NO_VOICE) return;
  const Voice& voice = params.voices[index];
  if (voice.kind == PARTIALS || voice.kind == DRUM) return;
  const bool is_tone = voice.kind == TONE;
  const u32 seed = voice.seed, end = voice.end;
  for (u32 chunk = blockIdx.y; chunk < params.n_chunks; chunk += gridDim.y) {
    const u64 chunk_start = params.position + (u64)chunk * CHUNK;
    State z = {0.0f, 0.0f}, m1 = {1.0f, 0.0f}, m2 = {0.0f, 1.0f};
    FilterLines filter;
    Tone tone(voice);
    bool known = false;
    for (int tick = 0; tick < CHUNK / TICK; tick++) {
      const i64 wide_age = (i64)(chunk_start + tick * TICK - voice.onset);
      if (wide_age + TICK <= 0 || wide_age >= (i64)voice.end) {
        known = false;
        continue;
      }
      const i32 age0 = (i32)wide_age;
      filter.aim(voice, params, age0, known && age0 > 0);
      known = true;
      tone.seek(age0);
      for (int i = 0; i < TICK; i++) {
        const i32 age = age0 + i;
        const bool heard = age >= 0 && (u32)age < end;
        const float input = is_tone ? tone.next(table) : white(seed + (u32)age);
        z.next(filter.a, heard ? input : 0.0f);
        m1.next(filter.a, 0.0f);
        m2.next(filter.a, 0.0f);
        filter.advance();
      }
    }
    float* map = params.states + 6ull * ((u64)chunk * params.n_lanes + lane_index);
    map[0] = z.s1;
    map[1] = z.s2;
    map[2] = m1.s1;
    map[3] = m2.s1;
    map[4] = m1.s2;
    map[5] = m2.s2;
  }
}

// From maps to first states, chunk after chunk.
// budget: 40 registers, 0 spill
extern "C" __global__ void __launch_bounds__(128) voice_scan(Params params) {
  const u32 lane_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (lane_index >= params.n_lanes) return;
  const u32 index = params.lanes[lane_index];
  if (index == NO_VOICE) return;
  const u32 kind = params.voices[index].kind;
  if (kind == PARTIALS || kind == DRUM) return;
  float s1 = 0.0f, s2 = 0.0f;
  for (u32 chunk = 0; chunk < params.n_chunks; chunk++) {
    float* map = params.states + 6ull * ((u64)chunk * params.n_lanes + lane_index);
    const float z1 = map[0], z2 = map[1], m11 = map[2], m12 = map[3], m21 = map[4], m22 = map[5];
    map[0] = s1;
    map[1] = s2;
    const float next = fused_multiply_add(m11, s1, fused_multiply_add(m12, s2, z1));
    s2 = fused_multiply_add(m21, s1, fused_multiply_add(m22, s2, z2));
    s1 = next;
  }
}

// budget: 32 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) voice_convert(const int* sums, float* out, u64 n) {
  for GRID_STRIDE(i, n) out[i] = (float)sums[i] * 5.9604644775390625e-8f;
}
