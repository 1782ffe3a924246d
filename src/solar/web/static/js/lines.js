// Lines over two photos, from places in one to places in the other.

import { el, set } from "./dom.js";

/** A line with its ends, and a wide one that is easy to point at. */
export const line = (colour) =>
  el(
    "g",
    { stroke: colour, fill: colour },
    el("line.reach"),
    el("line.seen"),
    el("circle", { r: 3.5 }),
    el("circle", { r: 3.5 }),
  );

/**
 * A sheet of lines over two photos, which stay in place when sizes change.
 * @param {HTMLElement} pair What the sheet covers.
 * @param {HTMLElement[]} photos The elements of both.
 */
export function lineSheet(pair, photos, given = { "aria-hidden": "true" }) {
  const sheet = el("svg.lines", given);
  let lines = [];

  function lay() {
    const base = pair.getBoundingClientRect();
    const [first, second] = photos.map((one) => one.getBoundingClientRect());
    set(sheet, "viewBox", `0 0 ${base.width} ${base.height}`);
    for (const [group, from, to] of lines) {
      place(group, inside(first, base, from), inside(second, base, to));
    }
  }
  const watch = new ResizeObserver(lay);
  for (const one of [pair, ...photos]) watch.observe(one);

  return {
    element: sheet,
    /** Shows lines, each a group with its ends as parts of the photos. */
    show(next) {
      lines = next;
      sheet.replaceChildren(...lines.map(([group]) => group));
      lay();
    },
    leave: () => watch.disconnect(),
  };
}

const inside = (bounds, base, [x, y]) => [
  bounds.left - base.left + x * bounds.width,
  bounds.top - base.top + y * bounds.height,
];

function place(group, [xa, ya], [xb, yb]) {
  const [reach, seen, first, second] = group.children;
  for (const one of [reach, seen]) {
    for (const [name, value] of Object.entries({ x1: xa, y1: ya, x2: xb, y2: yb })) {
      set(one, name, value);
    }
  }
  set(first, "cx", xa);
  set(first, "cy", ya);
  set(second, "cx", xb);
  set(second, "cy", yb);
}
