for (const audio of document.querySelectorAll("figure audio")) {
  const [figure, title] = [audio.parentElement, audio.getAttribute("aria-label")];
  const picture = figure.querySelector("img, svg");
  const button = document.createElement("button");
  const cursor = document.createElement("div");
  const stage = document.createElement("div");
  const name = document.createElement("div");
  button.className = "play small";
  button.innerHTML =
    '<svg class="start" viewBox="0 0 24 24"><path d="M7 4l14 8-14 8z"/></svg>' +
    '<svg class="stop" viewBox="0 0 24 24"><rect x="5" y="5" width="14" height="14" rx="2"/></svg>';
  const say = (isOn) => {
    button.setAttribute("aria-pressed", isOn);
    button.setAttribute("aria-label", `${isOn ? "Stop" : "Play"}: ${title}`);
  };
  say(false);
  name.className = "mini";
  name.append(button, title);
  figure.querySelector(".title").replaceWith(name);
  audio.controls = false;
  audio.hidden = true;
  cursor.className = "cursor";
  cursor.hidden = true;
  stage.className = "stage";
  picture.replaceWith(stage);
  stage.append(picture, cursor);
  const follow = () => {
    cursor.hidden = audio.paused;
    cursor.style.left = `${(audio.currentTime / (audio.duration || 1)) * 100}%`;
    if (!audio.paused) requestAnimationFrame(follow);
  };
  button.addEventListener("click", () => (audio.paused ? audio.play() : audio.pause()));
  audio.addEventListener("play", () => {
    for (const other of document.querySelectorAll("audio")) if (other !== audio) other.pause();
    say(true);
    follow();
  });
  for (const type of ["pause", "ended"]) audio.addEventListener(type, () => say(false));
  stage.addEventListener("click", (event) => {
    const { left, width } = stage.getBoundingClientRect();
    audio.currentTime = ((event.clientX - left) / width) * audio.duration;
  });
}
