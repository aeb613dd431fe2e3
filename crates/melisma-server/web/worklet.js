// Plays a ring. Every start, end and jump is faded, so nothing clicks.
import { FIELD, Ring, STATE } from "./ring.js";

/** Frames that must remain to fade out before the ring is dry. */
const RESERVE = 64;
const FADE_IN = 240;
/** Share of the difference between two fills that the mean follows, per quantum: about a second. */
const FOLLOW = 0.0025;
/** Frames by which the mean fill may differ from the target before the speed changes. */
const DEAD_BAND = 480;
const MAX_DRIFT = 0.004;
/** Below this a stream is in danger of running dry. */
const SAFE_SECONDS = 0.01;
/** The reserve should be this many times as long as the longest delay of late. */
const MARGIN = 1.3;
/** The target changes by whole steps. */
const STEP_SECONDS = 0.01;
const MAX_TARGET_SECONDS = 0.4;
/** What a higher target asks of the server arrives within this time. */
const SETTLE_SECONDS = 0.1;
/** Delays are remembered for this long, in so many parts. */
const MEMORY_SECONDS = 60;
const MEMORY_PARTS = 12;
/** Time before the first sound in which the pace of a live stream is watched. */
const WATCH_SECONDS = 0.1;
/** Live sound that waits this much longer than it should is skipped. */
const BEHIND_SECONDS = 0.1;
/** Samples of a live stream come in blocks of this length. */
const BLOCK_SECONDS = 0.01;

class RingPlayer extends AudioWorkletProcessor {
  constructor(options) {
    super();
    this.ring = new Ring(options.processorOptions.memory);
    /** The beginning of the stream that plays. */
    this.splice = 0;
    this.gain = 0;
    /** The place between two frames, 0 to 1. */
    this.fraction = 0;
    this.mean = 0;
    this.speed = 1;
    this.leastTarget = this.ring.get(FIELD.TARGET);
    /** Until then, the fill does not tell how late the stream is. */
    this.settledSeconds = 0;
    /** The longest delay of each part of the memory, the latest first, and the end of that part. */
    this.delays = [0];
    this.partSeconds = 0;
    /** When the stream ran dry, until its samples come again. */
    this.drySeconds = null;
    /** The pace of the stream before its first sound: since when, and the earliest samples so far. */
    this.watch = null;
    this.isKnown = false;
  }

  process(_inputs, outputs) {
    const [left, right] = outputs[0];
    const { ring } = this;
    const n = left.length;
    if (ring.get(FIELD.STATE) === STATE.WAITING && !this.begin()) {
      return true;
    }
    const fill = ring.fill();
    this.follow(fill);
    const isDry = fill < this.speed * n + RESERVE;
    const ends = isDry || ring.get(FIELD.WANTED) === 0 || this.isSpliced() || this.isBehind(fill);
    if (ends) {
      this.fadeOut(left, right, fill);
      this.wait(fill);
    } else {
      this.copy(left, right, n);
    }
    return true;
  }

  /** Whether enough waits to begin. */
  begin() {
    const { ring } = this;
    if (ring.get(FIELD.WANTED) === 0) {
      [this.watch, this.isKnown, this.delays] = [null, false, [0]];
      this.setTarget(this.leastTarget);
      return false;
    }
    const splice = ring.get(FIELD.SPLICE);
    if (splice !== this.splice) {
      ring.set(FIELD.READ, splice);
      [this.splice, this.drySeconds] = [splice, null];
    }
    const fill = ring.fill();
    if (this.drySeconds !== null && fill > 0) {
      this.note(ring.get(FIELD.TARGET) + (currentTime - this.drySeconds) * sampleRate);
      this.drySeconds = null;
    }
    const hasEnded = ring.get(FIELD.ENDED) === 1 && fill > 0;
    const isEnough = (this.isWatched(fill) && fill >= ring.get(FIELD.TARGET)) || hasEnded;
    if (isEnough) {
      this.skip(fill);
      this.gain = 0;
      this.fraction = 0;
      this.mean = ring.fill();
      this.speed = 1;
      this.settledSeconds = 0;
      ring.set(FIELD.STATE, STATE.PLAYING);
    }
    return isEnough;
  }

  /** Watches how evenly a live stream arrives before its first sound; the longest delay adds to the target. */
  isWatched(fill) {
    const { ring } = this;
    if (this.isKnown || ring.get(FIELD.LIVE) === 0) {
      return true;
    }
    if (fill <= 0) {
      return false;
    }
    this.watch ??= { since: currentTime, seconds: currentTime, fill };
    const { watch } = this;
    const late = watch.fill + (currentTime - watch.seconds) * sampleRate - fill;
    if (late < 0) {
      [watch.seconds, watch.fill] = [currentTime, fill];
    }
    const needed = this.leastTarget + late - BLOCK_SECONDS * sampleRate;
    if (needed > ring.get(FIELD.TARGET)) {
      this.setTarget(needed);
    }
    this.isKnown = currentTime - watch.since >= WATCH_SECONDS;
    return this.isKnown;
  }

  /** After a pause, what came late is not worth its delay. */
  skip(fill) {
    const { ring } = this;
    const excess = Math.floor(fill - ring.get(FIELD.TARGET) - (BLOCK_SECONDS * sampleRate) / 2);
    if (excess > 0 && ring.get(FIELD.LIVE) === 1) {
      ring.set(FIELD.READ, ring.get(FIELD.READ) + excess);
    }
  }

  /** Whether a live stream waits so long that a jump is better than its delay: the sound card stood still. */
  isBehind(fill) {
    const { ring } = this;
    return ring.get(FIELD.LIVE) === 1 && fill > ring.get(FIELD.TARGET) + BEHIND_SECONDS * sampleRate;
  }

  /** Whether a new stream has enough samples to take over. */
  isSpliced() {
    const { ring } = this;
    const splice = ring.get(FIELD.SPLICE);
    return splice !== this.splice && ((ring.get(FIELD.WRITTEN) - splice) | 0) >= ring.get(FIELD.TARGET);
  }

  /** Reads faster or slower where the server's clock and the sound card's differ. */
  follow(fill) {
    const { ring } = this;
    if (ring.get(FIELD.LIVE) === 0) {
      return;
    }
    this.adapt(fill);
    const target = ring.get(FIELD.TARGET);
    this.mean += (fill - this.mean) * FOLLOW;
    const excess = this.mean - target - DEAD_BAND;
    const lack = target - RESERVE - this.mean;
    const drift = excess > 0 ? excess / sampleRate / 5 : lack > 0 ? -lack / sampleRate / 5 : 0;
    this.speed = 1 + Math.max(-MAX_DRIFT, Math.min(MAX_DRIFT, drift));
  }

  /** Lowers the target when long delays are forgotten, and raises it before one that is longer than those of late. */
  adapt(fill) {
    const target = this.ring.get(FIELD.TARGET);
    if (currentTime > this.partSeconds) {
      this.partSeconds = currentTime + MEMORY_SECONDS / MEMORY_PARTS;
      if (this.delays.length === MEMORY_PARTS && this.needed() < target) {
        this.setTarget(target - STEP_SECONDS * sampleRate);
      }
      this.delays = [0, ...this.delays].slice(0, MEMORY_PARTS);
    }
    if (currentTime > this.settledSeconds) {
      this.note(target - fill);
    }
  }

  /** Takes a delay, and raises the target if that is too low for it. @param {number} delay frames */
  note(delay) {
    if (delay <= this.delays[0]) {
      return;
    }
    this.delays[0] = delay;
    const needed = this.needed();
    if (needed > this.ring.get(FIELD.TARGET)) {
      this.setTarget(needed);
    }
  }

  /** The target for the delays of late, in whole steps above the least. */
  needed() {
    const step = STEP_SECONDS * sampleRate;
    const above = MARGIN * Math.max(...this.delays) + SAFE_SECONDS * sampleRate - this.leastTarget;
    return this.leastTarget + Math.ceil(above / step) * step;
  }

  setTarget(frames) {
    this.settledSeconds = currentTime + SETTLE_SECONDS;
    this.ring.set(FIELD.TARGET, Math.max(this.leastTarget, Math.min(frames, MAX_TARGET_SECONDS * sampleRate)));
  }

  copy(left, right, n) {
    const { ring, speed } = this;
    const { samples, mask } = ring;
    const read = ring.get(FIELD.READ);
    let at = this.fraction;
    for (let i = 0; i < n; i++) {
      if (this.gain < 1) {
        this.gain = Math.min(1, this.gain + 1 / FADE_IN);
      }
      const whole = Math.floor(at);
      const part = at - whole;
      const from = read + whole;
      if (part === 0) {
        left[i] = this.gain * samples[2 * (from & mask)];
        right[i] = this.gain * samples[2 * (from & mask) + 1];
      } else {
        left[i] = this.gain * between(samples, mask, from, part, 0);
        right[i] = this.gain * between(samples, mask, from, part, 1);
      }
      at += speed;
    }
    const whole = Math.floor(at);
    this.fraction = at - whole;
    ring.set(FIELD.READ, read + whole);
  }

  fadeOut(left, right, fill) {
    const { ring } = this;
    const { samples, mask } = ring;
    const read = ring.get(FIELD.READ);
    const n = Math.max(0, Math.min(left.length, fill));
    for (let i = 0; i < n; i++) {
      const gain = this.gain * (1 - (i + 1) / n);
      left[i] = gain * samples[2 * ((read + i) & mask)];
      right[i] = gain * samples[2 * ((read + i) & mask) + 1];
    }
    ring.set(FIELD.READ, read + n);
  }

  wait(fill) {
    const { ring } = this;
    ring.set(FIELD.STATE, STATE.WAITING);
    const isDry = fill < this.speed * 128 + RESERVE && !this.isSpliced();
    if (isDry && ring.get(FIELD.ENDED) === 0 && ring.get(FIELD.WANTED) === 1) {
      ring.set(FIELD.UNDERRUNS, ring.get(FIELD.UNDERRUNS) + 1);
      this.drySeconds = currentTime;
    }
  }
}

/** A cubic through four frames. */
function between(samples, mask, from, part, channel) {
  const at = (offset) => samples[2 * ((from + offset) & mask) + channel];
  const [a, b, c, d] = [at(-1), at(0), at(1), at(2)];
  const slope = 0.5 * (c - a);
  const square = a - 2.5 * b + 2 * c - 0.5 * d;
  const cube = 0.5 * (d - a) + 1.5 * (b - c);
  return ((cube * part + square) * part + slope) * part + b;
}

registerProcessor("ring-player", RingPlayer);
