// One sentence and one action over a picture: the states in which nothing plays.
import { make } from "./element.js";

export class Notice {
  /** @param {HTMLElement} place an element that covers the picture */
  constructor(place) {
    this.place = place;
    this.timer = 0;
  }

  hide() {
    clearInterval(this.timer);
    this.place.hidden = true;
    this.place.replaceChildren();
  }

  /**
   * @param {string} sentence
   * @param {{ label: string, act: () => void }} [action]
   */
  say(sentence, action) {
    clearInterval(this.timer);
    const parts = [make("p", {}, sentence)];
    if (action) {
      const button = make("button", { type: "button", class: "plain" }, action.label);
      button.addEventListener("click", action.act);
      parts.push(button);
    }
    this.place.setAttribute("aria-live", "polite");
    this.place.replaceChildren(...parts);
    this.place.hidden = false;
  }

  /**
   * Counts down, then acts.
   * @param {(seconds: number) => string} sentence
   * @param {number} waitMs
   * @param {{ label: string, act: () => void }} action
   */
  count(sentence, waitMs, action) {
    const end = performance.now() + waitMs;
    const left = () => Math.max(1, Math.ceil((end - performance.now()) / 1e3));
    const act = () => {
      clearInterval(this.timer);
      action.act();
    };
    this.say(sentence(left()), { label: action.label, act });
    const text = this.place.querySelector("p");
    this.timer = setInterval(() => {
      if (performance.now() >= end) {
        act();
      } else if (text.textContent !== sentence(left())) {
        // The sentence was read aloud once; every second would be too often.
        this.place.setAttribute("aria-live", "off");
        text.textContent = sentence(left());
      }
    }, 100);
  }

  /** @param {string} sentence @param {(key: string) => void} use */
  askKey(sentence, use) {
    clearInterval(this.timer);
    const hadFocus = this.place.contains(document.activeElement);
    const input = make("input", { type: "password", autocomplete: "off", "aria-label": "API key", required: "" });
    const form = make("form", {}, input, make("button", { class: "plain" }, "Use this key"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      use(input.value.trim());
    });
    this.place.replaceChildren(make("p", {}, sentence), form);
    this.place.hidden = false;
    if (hadFocus) {
      input.focus();
    }
  }
}
