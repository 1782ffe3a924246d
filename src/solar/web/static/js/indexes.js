// Several indexes of one server: a list in the bar, each at an address of its own.

import { el } from "./dom.js";
import { address, parse } from "./route.js";
import { count } from "./words.js";

// Views that show a whole collection, so that another has them, too.
const WHOLE = new Set(["search", "map", "albums", "duplicates", "compare", "add"]);
const STAYS = new Set(["text", "rerank", "sort", "set"]);

/** Shows which index this is behind `brand`, and lets visitors go to another of `info.indexes`. */
export function indexSwitch(brand, info) {
  document.querySelector(".index-switch")?.remove();
  if (info.indexes.length < 2) return;
  const chosen = el(
    "select.index-switch",
    { "aria-label": "Index", title: `${count(info.photos)} photos` },
    ...info.indexes.map(({ name, address }) =>
      el("option", { value: address, selected: name === info.name }, name),
    ),
  );
  chosen.addEventListener("change", () => {
    const there = chosen.value;
    // Who comes back by Back finds the list as this page had it.
    chosen.value = info.indexes.find(({ name }) => name === info.name).address;
    location.assign(there + carried(location.hash));
  });
  brand.after(chosen);
}

/**
 * What of an address means the same in another index: the view, an uploaded photo, a text, and how
 * results are ranked. Numbers of photos, filters and models are those of one index.
 */
function carried(hash) {
  const { view, params } = parse(hash);
  if (!WHOLE.has(view)) return "";
  const uploaded = params.q?.startsWith("q-");
  if (!uploaded && !params.text) return address(view);
  const stays = (name) =>
    STAYS.has(name) ||
    (/^[ab]\./.test(name) && !name.endsWith(".model")) ||
    (uploaded && (name === "q" || name === "box"));
  const kept = Object.entries(params).filter(([name]) => stays(name));
  return address(view, [], Object.fromEntries(kept));
}
