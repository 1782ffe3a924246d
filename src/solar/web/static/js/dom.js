// Elements from JavaScript. Text only ever becomes text nodes: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "use", "g", "line", "circle", "path", "rect"]);

/**
 * Makes an element.
 * @param {string} kind A tag with classes: "a.card.wide".
 * @param {object} given Attributes; null and false are left out. `on` holds listeners.
 * @param {...(Node|string|null|false)} children What is empty is left out.
 */
export function el(kind, given = {}, ...children) {
  const [tag, ...classes] = kind.split(".");
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  if (classes.length) node.classList.add(...classes);
  for (const [name, value] of Object.entries(given)) {
    if (name === "on") listen(node, value);
    else set(node, name, value);
  }
  node.append(...children.filter((child) => child || child === 0));
  return node;
}

/** Sets an attribute, or removes it: true is there, false and null are not. */
export function set(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : String(value));
}

function listen(node, listeners) {
  for (const [name, listener] of Object.entries(listeners)) node.addEventListener(name, listener);
}

/** One of the icons of index.html. */
export function icon(name) {
  return el("svg.icon", { "aria-hidden": "true" }, el("use", { href: `#i-${name}` }));
}

/** A button with an icon, a text, or both. */
export function button(text, { symbol = null, kind = "", on, ...given } = {}) {
  const listeners = typeof on === "function" ? { click: on } : on;
  return el(
    kind ? `button.${kind}` : "button",
    { type: "button", on: listeners ?? {}, ...given },
    symbol && icon(symbol),
    text && el("span", {}, text),
  );
}

/** A link that looks like the buttons. */
export function linkButton(text, href, symbol) {
  return el("a.button", { href }, symbol && icon(symbol), el("span", {}, text));
}

/** Gives the focus to a part, or to the view: what had it is gone. */
export const refocus = (part) =>
  (part ?? document.getElementById("main")).focus({ preventScroll: true });

/** Whether nothing has the focus, as after the part that had it was removed. */
export const unfocused = () => document.activeElement === document.body;

/** Puts children in the place of others; who was at a control stays there, or at the last one. */
export function refill(element, children) {
  const all = () => [...element.querySelectorAll("a, button, input, select")];
  const at = all().indexOf(document.activeElement);
  element.replaceChildren(...children.filter(Boolean));
  if (at >= 0) refocus(all()[at] ?? all().at(-1));
}

/** Puts styles on an element through the CSSOM, which a strict policy allows. */
export function style(node, values) {
  for (const [name, value] of Object.entries(values)) node.style.setProperty(name, value);
  return node;
}

/** Gives an element the shape of a photo. */
export const shaped = (node, { width, height }) =>
  style(node, { "--ratio": String(width / height || 4 / 3) });

/** Lays an element over the part [left, top, right, bottom] of a photo. */
export const cover = (node, [left, top, right, bottom], { width, height }) =>
  style(node, {
    left: `${(100 * left) / width}%`,
    top: `${(100 * top) / height}%`,
    width: `${(100 * (right - left)) / width}%`,
    height: `${(100 * (bottom - top)) / height}%`,
  });

/** Where on a photo a pointer is, in the photo's pixels; `node` is where the photo is shown. */
export function placeOn(node, { clientX, clientY }, photo) {
  const { left, top, width, height } = node.getBoundingClientRect();
  return [((clientX - left) / width) * photo.width, ((clientY - top) / height) * photo.height];
}

/** The head of a view; a text is its title. */
export const viewHead = (...parts) =>
  el(
    "div.view-head",
    {},
    ...parts.map((part) => (typeof part === "string" ? el("h1.view-title", {}, part) : part)),
  );

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
