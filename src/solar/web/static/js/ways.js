// Where one can go from a photo.

import * as route from "./route.js";

/** The model of this name, or else the first one. */
export const modelOf = (info, name) =>
  info.models.find((one) => one.name === name) ?? info.models[0];

/** What a card offers of a photo that was not searched for. */
export const ways = (info, id) => [
  { text: "Search", href: route.address("search", [], { q: id }) },
  ...looks(info, id),
];

/** What there is to look at: of a photo alone, and of it beside the query `q` of a search. */
export function looks(info, id, { q, box, model } = {}) {
  const { why, attention } = modelOf(info, model);
  const way = (text, symbol, key, href) => ({ text, symbol, key, href });
  return [
    q && way("Matching details", "match", "m", route.address("match", [q, id], { box })),
    q && why && way("What looks alike", "why", "w", route.address("why", [q, id], { box, model })),
    attention.length > 0 && way("Attention map", "look", "l", route.address("look", [id])),
  ].filter(Boolean);
}
