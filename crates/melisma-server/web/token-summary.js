// What became of the tokens of a stream, as a sentence.
import { count } from "./element.js";

/** Returns the sentence for the counts of the ledger. */
export function inWords({ accepted, rejected, resyncs, frames, concealed_frames: concealed, dropped_frames: dropped }) {
  const total = accepted + rejected;
  const first =
    rejected === 0
      ? `All ${count(total, "token")} were accepted and made ${count(frames, "frame")}.`
      : `${count(accepted, "token")} of ${total.toLocaleString("en")} were accepted, ${rejected.toLocaleString("en")} rejected; they made ${count(frames, "frame")}.`;
  const faults = [
    resyncs > 0 && `the stream lost its place ${count(resyncs, "time")}`,
    concealed > 0 && `${count(concealed, "frame")} were completed from the one before`,
    dropped > 0 && `${count(dropped, "frame")} had too few tokens and were dropped`,
  ].filter(Boolean);
  const rest = faults.join("; ");
  return faults.length === 0 ? `${first} Nothing was resynchronised or concealed.` : `${first} ${rest[0].toUpperCase()}${rest.slice(1)}.`;
}
