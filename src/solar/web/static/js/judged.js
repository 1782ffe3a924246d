// Results that the visitor wants more or less of, and the bar that searches again with them.

import { button, el, set } from "./dom.js";
import { notify, say } from "./notice.js";

const MOST = 50;
const KINDS = { like: ["add", "More like this", "+"], unlike: ["less", "Less like this", "-"] };
// Marks that were not searched with yet, for those who look at a photo and come back.
const pending = new Map();

const ids = (text) => new Set((text ?? "").split(",").filter(Boolean));
const keyOf = ({ q, text, and, like, unlike }) =>
  [q, text, and, like, unlike].map((one) => one ?? "").join("&");

/** What of a request the marks in an address stand for; nothing where there are none. */
export function request(params) {
  const marked = Object.keys(KINDS).map((kind) => [kind, [...ids(params[kind])]]);
  return Object.fromEntries(marked.filter(([, all]) => all.length));
}

/**
 * The marks of one search.
 * @param {HTMLElement} list Where the cards are.
 * @param {function({like: string, unlike: string})} search Called with what to search with.
 * @param {boolean} allowed Whether results can be marked: not where photos have no vectors.
 */
export function judged(list, search, allowed) {
  let marks = { like: new Set(), unlike: new Set() };
  let at = {};

  const written = () => ({ like: [...marks.like].join(","), unlike: [...marks.unlike].join(",") });
  const changed = () => Object.entries(written()).some(([kind, all]) => all !== (at[kind] ?? ""));

  const text = el("span.judged-text");
  const again = button("Search again", { kind: "primary", on: () => changed() && search(written()) });
  const clear = button("Clear", {
    on() {
      marks = { like: new Set(), unlike: new Set() };
      for (const one of [at, { ...at, ...written() }]) pending.delete(keyOf(one));
      paint();
      say("Nothing is marked.");
      if (changed()) search(written());
      list.querySelector(".card a")?.focus({ preventScroll: true });
    },
  });
  const bar = el(
    "div.judged",
    { role: "group", "aria-label": "Marked results", hidden: true },
    text,
    again,
    clear,
  );

  function paint() {
    const { like, unlike } = marks;
    const parts = [like.size && `more like ${like.size}`, unlike.size && `less like ${unlike.size}`];
    text.textContent = parts.filter(Boolean).join(", ");
    bar.hidden = !like.size && !unlike.size;
    set(again, "aria-disabled", changed() ? null : "true");
    for (const one of list.querySelectorAll(":scope > .card")) mark(one);
  }

  /** Says on a card what it is marked with. */
  function mark(card) {
    const kind = Object.keys(KINDS).find((one) => marks[one].has(card.dataset.id));
    set(card, "data-judged", kind ? KINDS[kind][1] : null);
    return card;
  }

  function toggle(id, kind) {
    const [mine, other] = kind === "like" ? [marks.like, marks.unlike] : [marks.unlike, marks.like];
    if (!mine.delete(id)) {
      if (mine.size >= MOST) {
        notify(`At most ${MOST} photos can be marked so.`, "bad");
        return;
      }
      mine.add(id);
      other.delete(id);
    }
    pending.set(keyOf(at), marks);
    paint();
    say(text.textContent ? `${text.textContent}.` : "Nothing is marked.");
  }

  return {
    element: bar,
    search: () => again.click(),
    /** Takes the marks of an address, or those made since at the same search. */
    show(params) {
      at = params;
      marks = pending.get(keyOf(at)) ?? { like: ids(at.like), unlike: ids(at.unlike) };
      paint();
    },
    /** Takes the marks off photos that are gone, by id. */
    forget(gone) {
      for (const made of new Set([marks, ...pending.values()])) {
        for (const id of gone) {
          made.like.delete(id);
          made.unlike.delete(id);
        }
      }
      paint();
    },
    on: mark,
    /** What a menu offers for a photo. */
    actions: (id) =>
      (allowed ? Object.entries(KINDS) : []).map(([kind, [symbol, text, key]]) => ({
        ...{ text, symbol, key, pressed: marks[kind].has(id), on: () => toggle(id, kind) },
      })),
  };
}
