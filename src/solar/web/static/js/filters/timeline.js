// When photos were taken: a bar for each year, or for each month of the years that are shown.

import { button, el, style } from "../dom.js";
import { count } from "../words.js";

const NAMES = new Intl.DateTimeFormat("en", { month: "short", year: "numeric", timeZone: "UTC" });

/**
 * Bars that choose a time.
 * @param {object[]} months `name`, as "2019-07", and `photos` of each.
 * @param {object} params Those of the address: from, to.
 * @param {function(object)} change Called with those that changed.
 */
export function timeline(months, { from = "", to = "" }, change) {
  const chosen = from.slice(0, 4) && from.slice(0, 4) === to.slice(0, 4) ? from.slice(0, 4) : "";
  const sizes = new Map();
  for (const { name, photos } of months) {
    if (chosen && !name.startsWith(chosen)) continue;
    const part = chosen ? name : name.slice(0, 4);
    sizes.set(part, (sizes.get(part) ?? 0) + photos);
  }
  const most = Math.max(1, ...sizes.values());
  const bars = [...sizes].map(([name, photos]) => {
    const text = name.length > 4 ? NAMES.format(new Date(`${name}-01T00:00:00Z`)) : name;
    const on = from.slice(0, 7) === name && to.slice(0, 7) === name;
    return el(
      "button.time",
      {
        type: "button",
        "aria-pressed": String(on),
        "aria-label": `${text}, ${count(photos)}`,
        on: { click: () => change(on ? span(chosen) : span(name)) },
      },
      style(el("i"), { height: `${Math.max(6, (100 * photos) / most)}%` }),
      el("span", {}, text),
    );
  });
  const all = () => change({ from: "", to: "" });
  const back = chosen && button("All years", { kind: "time.all", symbol: "back", on: all });
  return el("div.timeline", { role: "group", "aria-label": "When taken" }, back, ...bars);
}

/** The first and the last day of a year or a month. */
function span(name) {
  const [year, month] = name.split("-");
  if (!month) return { from: `${year}-01-01`, to: `${year}-12-31` };
  const last = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate();
  return { from: `${name}-01`, to: `${name}-${last}` };
}
