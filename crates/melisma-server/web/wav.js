// Samples to a WAV file.

const HEAD_BYTES = 44;
/** Kinds of samples: the tag of the format and the bytes of one. */
export const FLOATS = { tag: 3, bytes: 4 };
export const INTEGERS = { tag: 1, bytes: 2 };

/**
 * @param {Blob} samples interleaved
 * @param {{ rate: number, channels: number, kind: { tag: number, bytes: number } }} layout
 */
export function wav(samples, { rate, channels, kind }) {
  const nBytes = samples.size;
  const head = new DataView(new ArrayBuffer(HEAD_BYTES));
  const text = (at, word) => [...word].forEach((letter, i) => head.setUint8(at + i, letter.charCodeAt(0)));
  text(0, "RIFF");
  head.setUint32(4, HEAD_BYTES - 8 + nBytes, true);
  text(8, "WAVEfmt ");
  head.setUint32(16, 16, true);
  head.setUint16(20, kind.tag, true);
  head.setUint16(22, channels, true);
  head.setUint32(24, rate, true);
  head.setUint32(28, rate * channels * kind.bytes, true);
  head.setUint16(32, channels * kind.bytes, true);
  head.setUint16(34, 8 * kind.bytes, true);
  text(36, "data");
  head.setUint32(40, nBytes, true);
  return new Blob([head, samples], { type: "audio/wav" });
}

/** @param {Blob} blob @param {string} name */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
