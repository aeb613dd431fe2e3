// Voices x time in one launch: a lane is a voice, a warp is 32 voices of one kind in one chunk of
// time, and voices of a mix are summed in registers. The filter's state crosses chunks as an affine
// map: `voice_states` computes the maps, `voice_scan` chains them, `voice_render` starts every
// chunk with its state. If there are enough voices to fill the device, `voice_serial` gives each
// voice one thread for all chunks, computes the maps on the way, and gives the same bits.
#include "voice.cuh"

// Sums of 8 samples over the 8 lanes of a group; lane i ends with sample i.
__device__ __forceinline__ int transpose_sum(int (&x)[PART], u32 lane) {
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

// The destination of a group's samples.
struct Sink {
  u32 mix, lane;

  __device__ __forceinline__ void put(const Params& params, u64 sample, int left, int right) const {
    if (mix == NO_VOICE || sample >= params.len) return;
    const u64 place = 2 * ((u64)mix * params.len + sample);
    if (params.alone) {
      *reinterpret_cast<float2*>(params.out + place) =
          make_float2((float)left * 5.9604644775390625e-8f, (float)right * 5.9604644775390625e-8f);
    } else if (left | right) {
      atomicAdd(params.sums + place, left);
      atomicAdd(params.sums + place + 1, right);
    }
  }

  // Writes a part's samples starting at `at`.
  __device__ __forceinline__ void flush(const Params& params, u64 at, int (&left)[PART], int (&right)[PART]) const {
    int sum_left = transpose_sum(left, lane), sum_right = transpose_sum(right, lane);
    for (u32 width = PART; width < params.group; width *= 2) {
      sum_left += shfl_xor(FULL_WARP, sum_left, width);
      sum_right += shfl_xor(FULL_WARP, sum_right, width);
    }
    if ((lane & (params.group - 1)) < PART) put(params, at + (lane & (PART - 1)), sum_left, sum_right);
  }

  // Adds a single sample.
  __device__ __forceinline__ void add(const Params& params, u64 at, int left, int right) const {
    for (u32 width = 1; width < params.group; width *= 2) {
      left += shfl_xor(FULL_WARP, left, width);
      right += shfl_xor(FULL_WARP, right, width);
    }
    if ((lane & (params.group - 1)) == 0) put(params, at, left, right);
  }
};

__device__ __forceinline__ float limited(float sample) { return fmaxf(fminf(sample, 3.9f), -3.9f); }

// The controls at the ends of a tick, for a voice's mix.
__device__ __forceinline__ void controls_of(const Params& params, const Voice& voice, u64 tick, Control (&ends)[2]) {
  const Control* controls = params.controls + (u64)voice.mix * params.controls_stride;
  const u64 last = params.n_controls - 1;
  ends[0] = controls[tick < last ? tick : last];
  ends[1] = controls[tick + 1 < last ? tick + 1 : last];
}

// The registers of one kind of voice.
template <u32 KIND>
struct Player {
  Tone tone;
  Harmonics harmonics;
  FilterLines filter;
  State state;
  Level level;
  float mix_levels[3];
  u32 drum, drum_step, seed;

  __device__ __forceinline__ explicit Player(const Voice& voice)
      : tone(voice), harmonics(voice), state{0.0f, 0.0f}, level{}, drum(0), drum_step(0), seed(voice.seed) {
    for (int i = 0; i < 3; i++) mix_levels[i] = voice.mix_levels[i];
  }

  // Sets the lines and phases of the tick whose first sample has the age `age`; before the onset,
  // lines are extrapolated backwards. `quick` means that the previous tick was aimed and no segment
  // ends in this one.
  __device__ __forceinline__ void aim(const Voice& voice, const Params& params, u64 tick, i32 age, bool quick,
                                      bool known) {
    const u32 first = age > 0 ? (u32)age : 0u, end = (u32)(age + TICK);
    if (quick) {
      level.go_on(end);
    } else {
      level.aim(voice, first, end);
      level.value = fused_multiply_add((float)(age - (i32)first), level.slope, level.value);
    }
    if (KIND == TONE || KIND == NOISE) {
      Control ends[2];
      controls_of(params, voice, tick, ends);
      filter.aim(voice, ends, age, known);
    }
    if (KIND == TONE) tone.begin_tick(age);
    if (KIND == PARTIALS) harmonics.aim(voice, age, known);
    if (KIND == DRUM) {
      const u32 start = drum_phase(voice, first), last = drum_phase(voice, end);
      drum_step = (u32)round_to_int((float)(i32)(last - start) / (float)(end - first));
      drum = start - drum_step * (first - (u32)age);
    }
  }

  __device__ __forceinline__ void begin_part() {
    if (KIND == TONE) tone.begin_part();
    if (KIND == PARTIALS) harmonics.begin_part();
  }

  // The input of the filter; `heard` is false before the onset and after the end.
  __device__ __forceinline__ float input(const float* table, i32 age, bool heard) {
    const float input = KIND == TONE ? tone.next(table) : white(seed + (u32)age);
    return heard ? input : 0.0f;
  }

  // One sample before level and gains.
  __device__ __forceinline__ float next(float input) {
    if (KIND == PARTIALS) return harmonics.next();
    if (KIND == DRUM) {
      const float wave = cosine(drum);
      drum += drum_step;
      return wave;
    }
    const float2 outputs = state.next(filter.a, input);
    if (KIND == TONE) return outputs.y;
    return fused_multiply_add(outputs.y, mix_levels[2],
                              fused_multiply_add(outputs.x, mix_levels[1], input * mix_levels[0]));
  }
};

// Renders all chunks of a lane from `chunk` on in steps of `chunk_step`. SERIAL lanes have all
// chunks and carry the state themselves.
template <u32 KIND, bool SERIAL>
__device__ __forceinline__ void render(const Params& params, const float* table, const Voice& voice, bool present,
                                       Sink sink, u32 chunk, u32 chunk_step) {
  constexpr bool FILTERED = KIND == TONE || KIND == NOISE;
  const u32 end = voice.end, lane_index = blockIdx.x * blockDim.x + threadIdx.x;
  const u64 onset = voice.onset;
  const float left = voice.left, right = voice.right;
  Player<KIND> player(voice);
  State first = {0.0f, 0.0f};
  Map map;
  for (; chunk < params.n_chunks; chunk += chunk_step) {
    if (FILTERED && !SERIAL) {
      const float* from = params.states + 6ull * ((u64)chunk * params.n_lanes + lane_index);
      first = {from[0], from[1]};
    }
    player.state = first;
    map.reset();
    bool known = false;
    for (int tick = 0; tick < CHUNK / TICK; tick++) {
      const u64 at = (u64)chunk * CHUNK + tick * TICK;
      if (at >= params.len) break;
      const i64 wide_age = (i64)(params.position + at - onset);
      const bool sounds = present && wide_age + TICK > 0 && wide_age < (i64)end;
      if (!ballot(FULL_WARP, sounds)) {
        known = false;
        if (params.alone) {
          for (int part = 0; part < TICK; part += PART) {
            int zeros[PART] = {}, more[PART] = {};
            sink.flush(params, at + part, zeros, more);
          }
        }
        continue;
      }
      const i32 age = sounds ? (i32)wide_age : 0;
      const bool quick = !sounds || (known && player.level.turn >= (u32)(age + TICK));
      player.aim(voice, params, at / TICK, age, quick, known || !sounds);
      known = sounds;
      if (FILTERED && age <= 0) {
        // The lane was silent until here.
        first = player.state = {0.0f, 0.0f};
        map.reset();
      }
      const bool plain = !sounds || (age >= 0 && player.level.turn >= (u32)(age + TICK));
      if (ballot(FULL_WARP, plain) == FULL_WARP) {
        // No voice starts or ends in this tick, and no segment ends.
        const float own_left = sounds ? left : 0.0f, own_right = sounds ? right : 0.0f;
#pragma unroll 1
        for (int part = 0; part < TICK; part += PART) {
          int lefts[PART], rights[PART];
          player.begin_part();
#pragma unroll
          for (int i = 0; i < PART; i++) {
            const float input = FILTERED ? player.input(table, age + part + i, true) : 0.0f;
            if (FILTERED && SERIAL) map.next(player.filter.a, input);
            const float sample = limited(player.next(input) * player.level.value);
            if (FILTERED) player.filter.advance();
            player.level.value += player.level.slope;
            lefts[i] = round_to_int(sample * own_left);
            rights[i] = round_to_int(sample * own_right);
          }
          sink.flush(params, at + part, lefts, rights);
        }
        continue;
      }
#pragma unroll 1
      for (int i = 0; i < TICK; i++) {
        const i32 now = age + i;
        const bool heard = sounds && now >= 0 && (u32)now < end;
        if (heard && (u32)now == player.level.turn) player.level.aim(voice, (u32)now, (u32)(age + TICK));
        if (i % PART == 0) player.begin_part();
        const float input = FILTERED ? player.input(table, now, heard) : 0.0f;
        if (FILTERED && SERIAL) map.next(player.filter.a, input);
        const float sample = limited(player.next(input) * player.level.value);
        if (FILTERED) player.filter.advance();
        player.level.value += player.level.slope;
        sink.add(params, at + i, heard ? round_to_int(sample * left) : 0, heard ? round_to_int(sample * right) : 0);
      }
    }
    if (FILTERED && SERIAL) first = map.of(first);
  }
}

__device__ __forceinline__ void load_table(float* table, const float* from) {
  for (u32 i = threadIdx.x; i < 80; i += blockDim.x) table[i] = from[i];
  __syncthreads();
}

template <bool SERIAL>
__device__ __forceinline__ void render_lanes(const Params& params, const float* table, u32 chunk, u32 chunk_step) {
  const u32 lane_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (lane_index / 32 * 32 >= params.n_lanes) return;
  const u32 index = params.lanes[lane_index], lane = lane_id();
  // An empty lane takes the kind of its warp's first lane, which is never empty.
  const u32 leader = shfl_idx(FULL_WARP, index, 0);
  const Voice& voice = params.voices[index == NO_VOICE ? leader : index];
  const bool present = index != NO_VOICE;
  // All lanes of a group belong to one mix, including empty ones, and the first lane is not empty.
  const Sink sink = {shfl_idx(FULL_WARP, present ? voice.mix : NO_VOICE, lane & ~(params.group - 1)), lane};
  switch (params.voices[leader].kind) {
    case TONE: render<TONE, SERIAL>(params, table, voice, present, sink, chunk, chunk_step); break;
    case PARTIALS: render<PARTIALS, false>(params, table, voice, present, sink, chunk, chunk_step); break;
    case DRUM: render<DRUM, false>(params, table, voice, present, sink, chunk, chunk_step); break;
    default: render<NOISE, SERIAL>(params, table, voice, present, sink, chunk, chunk_step); break;
  }
}

// Grid: x over warps of lanes, y over chunks.
// budget: 96 registers, 0 spill
extern "C" __global__ void __launch_bounds__(128, 5) voice_render(Params params) {
  __shared__ float table[80];
  load_table(table, params.step);
  render_lanes<false>(params, table, blockIdx.y, gridDim.y);
}

// Grid: x over warps of lanes.
// budget: 96 registers, 0 spill
extern "C" __global__ void __launch_bounds__(128, 5) voice_serial(Params params) {
  __shared__ float table[80];
  load_table(table, params.step);
  render_lanes<true>(params, table, 0, 1);
}

template <u32 KIND>
__device__ __forceinline__ void make_maps(const Params& params, const float* table, const Voice& voice,
                                          u32 lane_index) {
  const u32 seed = voice.seed, end = voice.end;
  const u64 onset = voice.onset;
  Tone tone(voice);
  for (u32 chunk = blockIdx.y; chunk < params.n_chunks; chunk += gridDim.y) {
    Map map;
    map.reset();
    FilterLines filter;
    bool known = false;
    for (int tick = 0; tick < CHUNK / TICK; tick++) {
      const u64 at = (u64)chunk * CHUNK + tick * TICK;
      const i64 wide_age = (i64)(params.position + at - onset);
      if (wide_age + TICK <= 0 || wide_age >= (i64)end) {
        known = false;
        continue;
      }
      const i32 age = (i32)wide_age;
      Control ends[2];
      controls_of(params, voice, at / TICK, ends);
      filter.aim(voice, ends, age, known);
      known = true;
      if (KIND == TONE) tone.begin_tick(age);
#pragma unroll 1
      for (int part = 0; part < TICK; part += PART) {
        if (KIND == TONE) tone.begin_part();
#pragma unroll
        for (int i = 0; i < PART; i++) {
          const i32 now = age + part + i;
          const bool heard = now >= 0 && (u32)now < end;
          const float input = KIND == TONE ? tone.next(table) : white(seed + (u32)now);
          map.next(filter.a, heard ? input : 0.0f);
          filter.advance();
        }
      }
    }
    float* to = params.states + 6ull * ((u64)chunk * params.n_lanes + lane_index);
    to[0] = map.z.s1;
    to[1] = map.z.s2;
    to[2] = map.m1.s1;
    to[3] = map.m1.s2;
    to[4] = map.m2.s1;
    to[5] = map.m2.s2;
  }
}

// Computes the map of every chunk.
// budget: 72 registers, 0 spill
extern "C" __global__ void __launch_bounds__(128) voice_states(Params params) {
  __shared__ float table[80];
  load_table(table, params.step);
  const u32 lane_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (lane_index >= params.n_lanes) return;
  const u32 index = params.lanes[lane_index];
  if (index == NO_VOICE) return;
  const Voice& voice = params.voices[index];
  if (voice.kind == TONE) make_maps<TONE>(params, table, voice, lane_index);
  if (voice.kind == NOISE) make_maps<NOISE>(params, table, voice, lane_index);
}

// Turns maps into initial states, chunk by chunk.
// budget: 40 registers, 0 spill
extern "C" __global__ void __launch_bounds__(128) voice_scan(Params params) {
  const u32 lane_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (lane_index >= params.n_lanes) return;
  const u32 index = params.lanes[lane_index];
  if (index == NO_VOICE) return;
  const u32 kind = params.voices[index].kind;
  if (kind == PARTIALS || kind == DRUM) return;
  State state = {0.0f, 0.0f};
  for (u32 chunk = 0; chunk < params.n_chunks; chunk++) {
    float* at = params.states + 6ull * ((u64)chunk * params.n_lanes + lane_index);
    const Map map = {{at[0], at[1]}, {at[2], at[3]}, {at[4], at[5]}};
    at[0] = state.s1;
    at[1] = state.s2;
    state = map.of(state);
  }
}

// budget: 32 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) voice_convert(const int* sums, float* out, u64 n) {
  for
    GRID_STRIDE(i, n) out[i] = (float)sums[i] * 5.9604644775390625e-8f;
}
