// A photo in a grid: what it is, how well it fits, and where to go from it.

import { el, icon } from "./dom.js";
import { opening } from "./viewer/address.js";
import { evidence } from "./words.js";

const TRUTH = new Map([
  [true, ["right", "✓", "the same landmark"]],
  [false, ["wrong", "✗", "another landmark"]],
]);

const PROBABLE =
  "Probability that this is the same place; too high where many places look alike. “Same scene” is the surer sign";

const percent = (probability) => `${Math.round(100 * probability)} %`;

/**
 * @param {object} hit A hit of a search, or a photo of the collection.
 * @param {{open?: string, search?: string, look?: string, match?: string, why?: string}} links Where
 *   its parts lead; the picture opens the photo, unless `open` says otherwise.
 * @param {{beside?: string, foot?: HTMLElement}} more A note on the picture, a row at the end.
 */
export function card(hit, links, { beside = null, foot = null } = {}) {
  const [truth, mark, truthText] = TRUTH.get(hit.same_label) ?? [null, null, null];
  const ranked = hit.rank !== undefined;
  const spoken = [
    ranked && `Rank ${hit.rank}`,
    ranked && `score ${hit.score.toFixed(3)}`,
    hit.probability != null && `${percent(hit.probability)} probability of the same place`,
    hit.moved && `${Math.abs(hit.moved)} ${hit.moved > 0 ? "up" : "down"}`,
    hit.same_scene != null && (hit.same_scene ? "same scene" : "not verified"),
    truthText,
    hit.name,
  ].filter(Boolean);
  const picture = el(
    "a.card-main",
    {
      ...(links.open ? { href: links.open } : opening(hit.id)),
      title: hit.name,
      "aria-label": spoken.join(", "),
      tabindex: "-1",
    },
    thumbnail(hit),
    ranked && el("span.rank", {}, String(hit.rank)),
    mark && el("span.truth", { title: `By its label: ${truthText}` }, mark),
    moveBadge(hit.moved),
    hit.probability != null &&
      el("span.probability", { title: PROBABLE }, percent(hit.probability)),
    beside && el("span.beside", {}, beside),
  );
  const line = el(
    "div.card-line",
    {},
    ranked && el("span.score", {}, hit.score.toFixed(3)),
    hit.same_scene != null && sceneBadge(hit),
    el(
      "span.card-links",
      {},
      links.match && small(links.match, "match", `Matches with ${hit.name}`),
      links.why && small(links.why, "why", `Why ${hit.name} is similar`),
      links.look && small(links.look, "look", `Attention maps of ${hit.name}`),
      links.search && small(links.search, "search", `Search with ${hit.name}`),
    ),
  );
  return el(
    "li.card",
    { "data-id": hit.id, "data-truth": truth },
    picture,
    line,
    cardName(hit.name),
    ranked && cardFacts(hit),
    foot,
  );
}

/** A name whose beginning gives way where there is little room, as its end tells more. */
function cardName(name) {
  const text = name.split("/").slice(-2).join("/");
  return el("div.card-name", { title: name }, el("bdi", { dir: "ltr" }, text));
}

/** When and where a photo was taken; nothing where nobody knows. */
function cardFacts({ taken, position, camera }) {
  const place = position?.map((degrees) => degrees.toFixed(4)).join(", ");
  const text = [taken?.slice(0, 10), place].filter(Boolean).join(" · ");
  return text ? el("div.card-facts", { title: camera ?? text }, text) : null;
}

export function thumbnail(photo) {
  const image = el("img", {
    src: photo.thumbnail,
    alt: "",
    loading: "lazy",
    decoding: "async",
    draggable: "false",
  });
  image.addEventListener("error", () => image.closest(".card")?.classList.add("gone"));
  return image;
}

/** What verification says of a result, with the counts as its title. */
export function sceneBadge({ same_scene: same, inliers, threshold }) {
  const title = evidence(inliers, threshold);
  return el("span.scene", { title, "data-same": String(same) }, same ? "◆ same scene" : "not verified");
}

/** "▲ 3" for three ranks up, "▼ 2" for two down, nothing where nothing moved. */
function moveBadge(moved) {
  if (!moved) return null;
  const up = moved > 0;
  return el(up ? "span.moved.up" : "span.moved.down", {}, `${up ? "▲" : "▼"} ${Math.abs(moved)}`);
}

function small(href, symbol, text) {
  return el("a.card-link", { href, title: text, "aria-label": text, tabindex: "-1" }, icon(symbol));
}
