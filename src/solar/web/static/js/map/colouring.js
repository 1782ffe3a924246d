// What the colours on the map stand for: folders, dates, or groups of photos that lie together.

import { ember } from "../colours.js";
import { el, style } from "../dom.js";
import { count } from "../words.js";
import { grouped, spacing } from "./spacing.js";

// Told apart by most eyes, on light and on dark.
const SHADES = ["#e8862e", "#2f8fd0", "#3fa45b", "#c04f8f", "#8a63d2", "#c9a227", "#1fa7a0", "#d0483e"];
const REST = "#8d887f";
// Of the distance between neighbours: farther ones are another group.
const STEP = 2;

export const KINDS = { folder: "Folder", date: "Date", group: "Group" };

const folderOf = ({ name }) => name.split("/").slice(0, -1).join("/") || "(no folder)";

/** What can tell these photos apart: the first is the best to begin with. */
export function kindsFor(points) {
  const folders = new Set(points.map(folderOf)).size > 1;
  const dated = points.some((point) => point.taken);
  return [folders && "folder", "group", dated && "date"].filter(Boolean);
}

/**
 * Colours of points.
 * @returns {{of: function(object): string, legend: Node[]}} A CSS colour for each, and what they mean.
 */
export function colouring(kind, points) {
  if (kind === "date") return byDate(points);
  const values = kind === "group" ? groupsOf(points) : new Map(points.map((p) => [p.id, folderOf(p)]));
  const sizes = new Map();
  for (const value of values.values()) sizes.set(value, (sizes.get(value) ?? 0) + 1);
  sizes.delete(null);
  const most = [...sizes].sort((a, b) => b[1] - a[1]).slice(0, SHADES.length);
  const shades = new Map(most.map(([value], at) => [value, SHADES[at]]));
  const rest = points.length - most.reduce((sum, [, size]) => sum + size, 0);
  return {
    of: (point) => shades.get(values.get(point.id)) ?? REST,
    legend: [
      ...most.map(([value, size]) => swatch(shades.get(value), value, count(size))),
      rest > 0 && swatch(REST, kind === "group" ? "smaller groups" : "other folders", count(rest)),
    ].filter(Boolean),
  };
}

/** Names of groups by id; null for photos that lie alone. */
function groupsOf(points) {
  const numbers = grouped(points, STEP * spacing(points));
  const sizes = new Map();
  for (const number of numbers) sizes.set(number, (sizes.get(number) ?? 0) + 1);
  return new Map(
    points.map(({ id }, at) => [id, sizes.get(numbers[at]) > 1 ? `group ${numbers[at] + 1}` : null]),
  );
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
