// What the colours on the map stand for: folders or dates.

import { ember } from "../colours.js";
import { el, style } from "../dom.js";
import { count } from "../words.js";

// Told apart by most eyes, on light and on dark.
const SHADES = ["#e8862e", "#2f8fd0", "#3fa45b", "#c04f8f", "#8a63d2", "#c9a227", "#1fa7a0", "#d0483e"];
const REST = "#8d887f";

export const KINDS = { folder: "Folder", date: "Date" };

const folderOf = ({ name }) => name.split("/").slice(0, -1).join("/") || "(no folder)";

/** What can tell these photos apart. */
export const kindsFor = (points) =>
  Object.keys(KINDS).filter((kind) => kind === "folder" || points.some((point) => point.taken));

/**
 * Colours of points.
 * @returns {{of: function(object): string, legend: Node[]}} A CSS colour for each, and what they mean.
 */
export function colouring(kind, points) {
  if (kind === "date") return byDate(points);
  const sizes = new Map();
  for (const folder of points.map(folderOf)) sizes.set(folder, (sizes.get(folder) ?? 0) + 1);
  const most = [...sizes].sort((a, b) => b[1] - a[1]).slice(0, SHADES.length);
  const shades = new Map(most.map(([folder], at) => [folder, SHADES[at]]));
  const rest = points.length - most.reduce((sum, [, size]) => sum + size, 0);
  return {
    of: (point) => shades.get(folderOf(point)) ?? REST,
    legend: [
      ...most.map(([folder, size]) => swatch(shades.get(folder), folder, count(size))),
      rest > 0 && swatch(REST, "other folders", count(rest)),
    ].filter(Boolean),
  };
}

function byDate(points) {
  const times = new Map(
    points.filter((p) => p.taken).map((p) => [p.id, Date.parse(p.taken.slice(0, 10))]),
  );
  const known = [...times.values()].filter((time) => !Number.isNaN(time));
  const first = known.reduce((a, b) => Math.min(a, b), Infinity);
  const last = known.reduce((a, b) => Math.max(a, b), -Infinity);
  const shade = (part) => ember(0.25 + 0.65 * part);
  const day = (time) => new Date(time).toISOString().slice(0, 10);
  const bar = style(el("i.swatch-bar"), {
    background: `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map(shade).join(", ")})`,
  });
  const undated = points.length - known.length;
  return {
    of({ id }) {
      const time = times.get(id);
      return time >= first ? shade((time - first) / Math.max(last - first, 1)) : REST;
    },
    legend: [
      el("span.map-swatch.map-dates", {}, day(first), bar, day(last)),
      undated > 0 && swatch(REST, "no date", count(undated)),
    ].filter(Boolean),
  };
}

const swatch = (colour, text, size) =>
  el(
    "span.map-swatch",
    { title: text },
    style(el("i.swatch"), { background: colour }),
    el("span", {}, text),
    el("small", {}, size),
  );
