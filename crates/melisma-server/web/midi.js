// Notes of a MIDI keyboard, where the browser and a device offer them.

const NOTE_OFF = 0x80;
const NOTE_ON = 0x90;
const CONTROL = 0xb0;
/** Controllers from this one on end all notes. */
const ALL_SOUND_OFF = 120;

/** Whether the browser has Web MIDI. */
export function hasMidi() {
  return typeof navigator.requestMIDIAccess === "function";
}

/**
 * Asks for the devices, and plays their notes on `keyboard`.
 * @param {import("./keyboard.js").Keyboard} keyboard
 * @param {(names: string[]) => void} tell the devices, now and whenever they change
 */
export async function connect(keyboard, tell) {
  const access = await navigator.requestMIDIAccess();
  const listen = () => {
    const inputs = [...access.inputs.values()];
    inputs.forEach((input) => (input.onmidimessage = (event) => take(keyboard, event.data)));
    tell(inputs.map((input) => input.name ?? "a device"));
  };
  access.onstatechange = () => {
    // A device that is gone does not release its keys.
    keyboard.releaseAll("midi");
    listen();
  };
  listen();
}

/** @param {import("./keyboard.js").Keyboard} keyboard @param {Uint8Array} data */
function take(keyboard, [status, key, velocity]) {
  const kind = status & 0xf0;
  if (kind === NOTE_ON && velocity > 0) {
    keyboard.hold(`midi ${key}`, key, velocity / 127);
  } else if (kind === NOTE_ON || kind === NOTE_OFF) {
    keyboard.release(`midi ${key}`);
  } else if (kind === CONTROL && key >= ALL_SOUND_OFF) {
    keyboard.releaseAll("midi");
  }
}
