// Samples to a WAV file of 32-bit floats.

const HEAD_BYTES = 44;
const FLOATS = 3;

/** @param {Blob} samples floats, interleaved @param {number} rate @param {number} channels */
export function wav(samples, rate, channels) {
  const nBytes = samples.size;
  const head = new DataView(new ArrayBuffer(HEAD_BYTES));
  const text = (at, word) => [...word].forEach((letter, i) => head.setUint8(at + i, letter.charCodeAt(0)));
  text(0, "RIFF");
  head.setUint32(4, HEAD_BYTES - 8 + nBytes, true);
  text(8, "WAVEfmt ");
  head.setUint32(16, 16, true);
  head.setUint16(20, FLOATS, true);
  head.setUint16(22, channels, true);
  head.setUint32(24, rate, true);
  head.setUint32(28, rate * channels * 4, true);
  head.setUint16(32, channels * 4, true);
  head.setUint16(34, 32, true);
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
