// What a listener keeps of the music: a recording, a link, a command, and the notes as MIDI.
import { command } from "./command.js";
import { refusal, request } from "./connection.js";
import { figure, find, show } from "./element.js";
import { FLOATS, save, wav } from "./wav.js";

/** Pieces of whole minutes, and what the server renders at most. */
const [MINUTE, MAX_SECONDS] = [60, 3600];

export class Keeper {
  /** @param {import("./play.js").PlayView} view */
  constructor(view) {
    this.view = view;
    this.isRecording = false;
    view.transport.addEventListener("jitter", ({ detail }) => this.showTime(detail.recordedFrames));
    view.transport.addEventListener("recorded", ({ detail }) => this.saveRecording(detail));
    find("record").addEventListener("click", () => this.record(this.isRecording ? "save" : "start"));
    find("cancel").addEventListener("click", () => {
      this.record("cancel");
      show(find("recorded"), "Nothing was saved.");
      find("record").focus();
    });
    find("copy-link").addEventListener("click", () => this.copyLink());
    find("copy-command").addEventListener("click", () => {
      this.showCommand();
      this.copy(find("command").textContent, "The command is copied.");
    });
    find("save-midi").addEventListener("click", () => this.saveMidi());
    this.showCommand();
  }

  /** The music has ended, and with it a recording. */
  stop() {
    if (this.isRecording) {
      this.record("save");
    }
  }

  /** @param {"start" | "save" | "cancel"} what */
  record(what) {
    this.view.transport.record(what);
    this.showRecording(what === "start");
  }

  showRecording(isRecording) {
    this.isRecording = isRecording;
    find("record").setAttribute("aria-pressed", String(isRecording));
    show(find("record"), isRecording ? "Save recording" : "Record");
    find("cancel").hidden = !isRecording;
    this.showTime(0);
  }

  /** @param {number} nFrames */
  showTime(nFrames) {
    if (this.isRecording) {
      const seconds = Math.floor(nFrames / this.view.player.rate);
      const time = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
      show(find("recorded"), nFrames > 0 || this.view.isOn ? `Recording ${time}` : "It begins with the music.");
    }
  }

  /** @param {{ samples: Blob, nFrames: number }} recorded */
  saveRecording({ samples, nFrames }) {
    this.showRecording(false);
    const { controls, player: { rate } } = this.view;
    show(find("recorded"), nFrames > 0 ? `${figure(nFrames / rate, 1)} s saved.` : "Nothing was played.");
    if (nFrames > 0) {
      save(wav(samples, { rate, channels: 2, kind: FLOATS }), `melisma-${controls.query().get("preset")}.wav`);
    }
  }

  /** The length of files: the minutes that were heard, and at least one. */
  seconds() {
    const { ring, rate } = this.view.player;
    const heard = this.view.isOn ? Math.ceil(ring.played() / rate / MINUTE) * MINUTE : 0;
    return Math.min(MAX_SECONDS, Math.max(MINUTE, heard));
  }

  showCommand() {
    const { controls, player } = this.view;
    show(find("command"), command(controls.query(), { rate: player.rate, seconds: this.seconds() }));
  }

  copyLink() {
    this.view.controls.keep();
    this.copy(`${location.origin}${location.pathname}${location.search}`, "The link is copied.");
  }

  async copy(text, done) {
    try {
      await navigator.clipboard.writeText(text);
      show(find("copied"), done);
    } catch {
      show(find("copied"), "The browser does not let the page copy.");
    }
  }

  /** The notes of the piece, as `melisma synth --midi` writes them. */
  async saveMidi() {
    const query = this.view.controls.query();
    query.set("seconds", String(this.seconds()));
    try {
      const reply = await request(`/v1/synth.mid?${query}`);
      if (reply.ok) {
        save(await reply.blob(), `melisma-${query.get("preset")}.mid`);
        show(find("copied"), `The notes of ${query.get("seconds")} s are saved.`);
      } else {
        show(find("copied"), `The server refused: ${(await refusal(reply)).message}.`);
      }
    } catch {
      show(find("copied"), "The server is gone.");
    }
  }
}
