// The page's elements, and numbers as people read them.

/** @param {string} id @returns {any} */
export function find(id) {
  const element = document.getElementById(id);
  if (!element) {
    throw new Error(`the page has no #${id}`);
  }
  return element;
}

/**
 * @param {string} name
 * @param {Record<string, string>} attributes
 * @param {(Node | string)[]} children
 */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  element.append(...children);
  return element;
}

/** Writes a text only where it changes. @param {Node} element @param {string} text */
export function show(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

/** A number with a true minus sign. @param {number} value @param {number} digits */
export function figure(value, digits = 0) {
  return value.toFixed(digits).replace("-", "\u2212");
}

/** @param {number} seconds */
export function milliseconds(seconds) {
  const ms = seconds * 1e3;
  return `${figure(ms, ms < 10 ? 1 : 0)} ms`;
}

/** @param {number} n @param {string} noun */
export function count(n, noun) {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}

/** Whether the viewer asks for less motion. */
export const stillness = matchMedia("(prefers-reduced-motion: reduce)");

/** A colour of the stylesheet. @param {string} name */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Sizes a canvas to its place on the screen, and clears it. @param {HTMLCanvasElement} canvas */
export function surface(canvas) {
  const scale = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}
