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
 * Puts lines where they belong.
 * @param {SVGElement} sheet What they are drawn on, as large as `pair`.
 * @param {HTMLElement[]} photos The elements of both.
 * @param {[SVGGElement, number[], number[]][]} lines Each with its ends as parts of the photos.
 */
export function layLines(sheet, pair, photos, lines) {
  const base = pair.getBoundingClientRect();
  const [first, second] = photos.map((one) => one.getBoundingClientRect());
  set(sheet, "viewBox", `0 0 ${base.width} ${base.height}`);
  for (const [group, from, to] of lines) {
    lay(group, inside(first, base, from), inside(second, base, to));
  }
}

const inside = (bounds, base, [x, y]) => [
  bounds.left - base.left + x * bounds.width,
  bounds.top - base.top + y * bounds.height,
];

function lay(group, [xa, ya], [xb, yb]) {
  const [reach, seen, first, second] = group.children;
  for (const one of [reach, seen]) {
    set(one, "x1", xa);
    set(one, "y1", ya);
    set(one, "x2", xb);
    set(one, "y2", yb);
  }
  set(first, "cx", xa);
  set(first, "cy", ya);
  set(second, "cx", xb);
  set(second, "cy", yb);
}
