// A photo in a grid: what a search says of it, what it is, and what can be done with it.

import { button, el } from "./dom.js";
import { openMenu } from "./menu.js";
import * as route from "./route.js";
import { opening } from "./viewer/address.js";
import { counted, VERDICTS } from "./words.js";

const TRUTH = new Map([
  [true, ["right", "✓", "the same landmark by its label"]],
  [false, ["wrong", "✗", "another landmark by its label"]],
]);

/**
 * @param {object} hit A hit of a search, or a photo of the collection.
 * @param {object} given
 * @param {?string} given.open Where the picture leads, if it does not open the photo.
 * @param {function(): object[]} given.actions What can be done: the first is a button of its own,
 *   the others are in its menu; some have a `key`.
 * @param {?string} given.beside A note on the picture.
 * @param {boolean} given.truth Whether labels judge the result.
 */
export function card(hit, { open = null, actions = null, beside = null, truth = false } = {}) {
  const [kind, mark, truthText] = (truth && TRUTH.get(hit.same_label)) || [null, null, null];
  const spoken = [hit.rank && `Rank ${hit.rank}`, VERDICTS[hit.verdict], truthText, hit.name];
  const picture = el(
    "a.card-main",
    {
      ...(open ? { href: open } : opening(hit.id)),
      title: hit.name,
      "aria-label": spoken.filter(Boolean).join(", "),
      tabindex: "-1",
    },
    thumbnail(hit),
    mark && el("span.truth", {}, mark),
    beside && el("span.beside", {}, beside),
  );
  const keydown = (event) => actions && press(event, actions());
  return el(
    "li.card",
    { "data-id": hit.id, "data-truth": kind, on: { keydown } },
    picture,
    hit.verdict && verdictLine(hit),
    cardName(hit.name),
    hit.taken && el("div.card-facts", {}, hit.taken.slice(0, 10)),
    actions && actionRow(hit, actions),
  );
}

/** Does what a key stands for. */
function press(event, actions) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const found = actions.find((one) => one && one.key === event.key.toLowerCase());
  if (!found) return;
  event.preventDefault();
  if (found.on) found.on(event);
  else route.go(found.href);
}

/** The first action, and a menu with all others. */
function actionRow(hit, actions) {
  const [{ text, href, on }] = actions();
  const given = { tabindex: "-1", "aria-label": `${text} with ${hit.name}` };
  const first = href
    ? el("a.card-action", { href, ...given }, text)
    : button(text, { kind: "card-action", on, ...given });
  const others = () => actions().slice(1).filter(Boolean);
  const more = others().length > 0 && button("More", {
    kind: "card-action",
    "aria-haspopup": "menu",
    tabindex: "-1",
    "aria-label": `More: ${hit.name}`,
    on: () => openMenu(more, others()),
  });
  return el("div.card-actions", {}, first, more);
}

/** The verdict on a result in words; a click shows what it comes from. */
export function verdictLine(hit) {
  return el(
    "details.verdict",
    { "data-verdict": hit.verdict },
    el("summary", { tabindex: "-1" }, VERDICTS[hit.verdict]),
    el("p", {}, evidence(hit)),
  );
}

/** The figures that a verdict comes from. */
function evidence({ rank, score, probability, inliers, threshold, moved }) {
  return [
    rank && `No. ${rank}`,
    score != null && `similarity ${score.toFixed(3)}`,
    probability != null && `${Math.round(100 * probability)} % likely the same place`,
    inliers != null && `${counted(inliers, "matching detail")}, ${threshold} are needed`,
    moved && `${counted(Math.abs(moved), "place")} ${moved > 0 ? "up" : "down"} by checking details`,
  ]
    .filter(Boolean)
    .join(" · ");
}

/** A name whose beginning gives way where there is little room, as its end tells more. */
function cardName(name) {
  const text = name.split("/").slice(-2).join("/");
  return el("div.card-name", { title: name }, el("bdi", { dir: "ltr" }, text));
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
