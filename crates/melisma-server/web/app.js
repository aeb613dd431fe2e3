// Views and their order: the page begins here.
import { find } from "./element.js";
import { PlayView } from "./play.js";
import { SpeakView } from "./speak.js";
import { Status } from "./status.js";
import { WatchView } from "./watch.js";

const status = new Status(find("status"), find("dot"));
/** @type {Record<string, { show(): void, hide(): void }>} */
export const views = {
  play: new PlayView(status),
  speak: new SpeakView(status),
  watch: new WatchView(status),
};

function choose() {
  const wanted = location.hash.slice(1);
  const chosen = wanted in views ? wanted : "play";
  for (const [name, view] of Object.entries(views)) {
    const isChosen = name === chosen;
    find(`view-${name}`).hidden = !isChosen;
    const link = find(`nav-${name}`);
    if (isChosen) {
      link.setAttribute("aria-current", "page");
      view.show();
    } else {
      link.removeAttribute("aria-current");
      view.hide();
    }
  }
}

addEventListener("hashchange", () => {
  choose();
  // Not to the button of that name.
  scrollTo(0, 0);
});
if (location.hash === "#speak") {
  // So that the text field does not push the rest down.
  await views.speak.ready;
}
choose();
status.start();
