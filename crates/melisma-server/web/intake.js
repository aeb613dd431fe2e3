// Files and text from outside of the page: chosen, pasted, or dropped.
import { find } from "./element.js";

/**
 * Listens on the whole view Speak; elsewhere a dropped file is ignored instead of replacing the page.
 * @param {{ file: (file: File) => void, text: (text: string) => void }} take
 */
export function listenForFiles(take) {
  const [view, drop, tokens, chooser] = ["view-speak", "drop", "tokens", "file"].map(find);
  addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.toggle("over", view.contains(event.target));
  });
  addEventListener("dragleave", () => drop.classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (view.contains(event.target)) {
      receive(event.dataTransfer);
    }
  });
  tokens.addEventListener("paste", (event) => {
    if (event.clipboardData.files.length > 0) {
      event.preventDefault();
      take.file(event.clipboardData.files[0]);
    }
  });
  chooser.addEventListener("change", () => {
    const [file] = chooser.files;
    // So that the same file can be chosen again.
    chooser.value = "";
    if (file) {
      take.file(file);
    }
  });

  /** @param {DataTransfer} dropped */
  function receive(dropped) {
    const text = dropped.getData("text");
    if (dropped.files.length > 0) {
      take.file(dropped.files[0]);
    } else if (text) {
      tokens.value = text;
      take.text(text);
    }
  }
}
