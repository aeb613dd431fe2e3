// A ring of stereo samples in shared memory: a worker writes, the audio worklet reads, the page looks on.

/** Fields of the header. Positions count frames and wrap at 2^32. */
export const FIELD = Object.freeze({
  /** Frames written. */
  WRITTEN: 0,
  /** Frames read. */
  READ: 1,
  /** Where the present stream begins; what is before it is not worth waiting for. */
  SPLICE: 2,
  /** Frames that must wait before the sound begins, and that should wait while it plays. */
  TARGET: 3,
  /** How often the sound ran dry. */
  UNDERRUNS: 4,
  /** One of STATE. */
  STATE: 5,
  /** 1 once the stream has ended, so that running dry is expected. */
  ENDED: 6,
  /** 1 while the listener wants to hear something. */
  WANTED: 7,
  /** 1 if samples arrive at the pace of their sound: late ones are skipped, and the speed follows the server's clock. */
  LIVE: 8,
});

export const STATE = Object.freeze({ WAITING: 0, PLAYING: 1 });

const HEADER_BYTES = 64;

export class Ring {
  /** @param {number} capacity frames, a power of two */
  static create(capacity) {
    return new Ring(new SharedArrayBuffer(HEADER_BYTES + capacity * 8));
  }

  /** @param {SharedArrayBuffer} memory */
  constructor(memory) {
    this.memory = memory;
    this.header = new Int32Array(memory, 0, HEADER_BYTES / 4);
    /** Left and right, interleaved. */
    this.samples = new Float32Array(memory, HEADER_BYTES);
    this.capacity = this.samples.length / 2;
    this.mask = this.capacity - 1;
  }

  /** @param {number} field */
  get(field) {
    return Atomics.load(this.header, field) >>> 0;
  }

  /** @param {number} field @param {number} value */
  set(field, value) {
    Atomics.store(this.header, field, value | 0);
  }

  /** Frames that wait. */
  fill() {
    return (this.get(FIELD.WRITTEN) - this.get(FIELD.READ)) | 0;
  }

  /** Frames of the present stream that were played. */
  played() {
    const played = (this.get(FIELD.READ) - this.get(FIELD.SPLICE)) >>> 0;
    // Until the worklet jumps to the new stream, it reads before its beginning.
    return played > 2 ** 32 - this.capacity ? 0 : played;
  }

  /** Frames that can be written. */
  room() {
    return this.capacity - this.fill();
  }

  /**
   * Writes frames; those that find no room are lost.
   * @param {Float32Array} samples interleaved
   * @param {1 | 2} channels
   */
  write(samples, channels) {
    const n = Math.min(samples.length / channels, this.room());
    const written = this.get(FIELD.WRITTEN);
    for (let i = 0; i < n; i++) {
      const at = 2 * ((written + i) & this.mask);
      this.samples[at] = samples[i * channels];
      this.samples[at + 1] = samples[i * channels + channels - 1];
    }
    this.set(FIELD.WRITTEN, written + n);
    return n;
  }

  /** The next sample written begins a new stream. */
  splice() {
    this.set(FIELD.ENDED, 0);
    this.set(FIELD.SPLICE, this.get(FIELD.WRITTEN));
  }
}
