// A grid of cards: arrows move in it, and cards glide to where a new ranking puts them.

import { calm, el, refocus, unfocused } from "./dom.js";

const GLIDE = { duration: 420, easing: "cubic-bezier(.2,.8,.2,1)" };

/**
 * @param {string} label What the grid holds.
 * @param {function(object): HTMLElement} make A card from an item with an `id`.
 * @param {function(?object, object): ?HTMLElement} between What stands between an item, if there is
 *   one, and the next; no card, and nothing that takes the focus.
 */
export function createGrid(label, make, between = () => null) {
  const list = el("ul.grid", { "aria-label": label });
  let focused = null;
  let remembered = null;
  let last = null;

  const cards = () => [...list.querySelectorAll(":scope > .card")];

  function made(items) {
    return items.flatMap((item) => {
      const parts = [between(last, item), make(item)].filter(Boolean);
      last = item;
      return parts;
    });
  }

  function reach(card) {
    for (const part of focused?.querySelectorAll("a, button, summary") ?? []) part.tabIndex = -1;
    focused = card ?? null;
    for (const part of focused?.querySelectorAll("a, button, summary") ?? []) part.tabIndex = 0;
  }

  /** The card above (-1) or below (1), in the same column or the one closest to it. */
  function vertically(direction) {
    const farther = cards().filter((one) => direction * (one.offsetTop - focused.offsetTop) > 0);
    const away = (one) => Math.abs(one.offsetTop - focused.offsetTop);
    const row = farther.filter((one) => away(one) === Math.min(...farther.map(away)));
    const aside = (one) => Math.abs(one.offsetLeft - focused.offsetLeft);
    return row.find((one) => aside(one) === Math.min(...row.map(aside)));
  }

  const beside = (step) => cards()[cards().indexOf(focused) + step];

  list.addEventListener("focusin", (event) => reach(event.target.closest(".card")));
  list.addEventListener("keydown", (event) => {
    const next = {
      ArrowLeft: () => beside(-1),
      ArrowRight: () => beside(1),
      ArrowUp: () => vertically(-1),
      ArrowDown: () => vertically(1),
    }[event.key];
    if (!next || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    next()?.querySelector("a").focus();
  });

  /** Has the keys begin at a card; who comes back to the remembered one has the focus there. */
  function resume(id) {
    const own = cards().find((one) => one.dataset.id === id);
    reach(own ?? cards()[0]);
    if (own && id === remembered && document.activeElement?.id === "main") focus();
  }

  function put(items) {
    const before = list.contains(document.activeElement) ? focused?.dataset.id : remembered;
    last = null;
    list.replaceChildren(...made(items));
    resume(before);
  }

  /** Keeps the focus of a keyboard in the window when something above has grown. */
  const show = () => list.querySelector("a:focus-visible")?.scrollIntoView({ block: "nearest" });

  const focus = () => (focused ?? cards()[0])?.querySelector("a").focus();

  return {
    element: list,
    /** Shows these and no others; those that stay glide from where they were. */
    set(items, { glide = false } = {}) {
      const typing = list.contains(document.activeElement);
      const before = glide && !calm() ? places(cards()) : new Map();
      put(items);
      if (typing && focused && !inView(focused.getBoundingClientRect())) reach(cards()[0]);
      if (typing) refocus(focused?.querySelector("a"));
      show();
      for (const one of cards()) slide(one, before.get(one.dataset.id), before.size > 0);
    },
    /** Shows what has become known of items without moving any. */
    update(items) {
      const now = new Map(items.map((item) => [item.id, item]));
      for (const one of cards()) {
        const item = now.get(one.dataset.id);
        if (item && !one.contains(document.activeElement)) one.replaceWith(make(item));
      }
      reach(cards().find((one) => one.contains(document.activeElement)) ?? cards()[0]);
    },
    /** Whether items are in another order than the cards. */
    differs: (items) =>
      items.map(({ id }) => id).join() !== cards().map((one) => one.dataset.id).join(),
    append(items) {
      list.append(...made(items));
      if (!focused) resume(remembered);
    },
    /** Takes out items, by id, and gives how many of them were there. */
    drop(ids) {
      const gone = cards().filter((one) => ids.has(one.dataset.id));
      const at = cards().indexOf(focused);
      for (const one of gone) one.remove();
      if (gone.includes(focused)) reach(cards()[at] ?? cards().at(-1));
      remembered = focused?.dataset.id; // who undoes this goes on there
      if (unfocused()) refocus(focused?.querySelector("a"));
      return gone.length;
    },
    focus,
    show,
    /** Says which card the keys begin at, once it is there. */
    remember(id) {
      remembered = id;
    },
    /** The id of the card that has the focus. */
    get current() {
      return list.contains(document.activeElement) ? focused?.dataset.id : null;
    },
  };
}

const inView = ({ top, bottom }) => top < innerHeight && bottom > 0;

function places(cards) {
  return new Map(cards.map((one) => [one.dataset.id, one.getBoundingClientRect()]));
}

function slide(card, from, gliding) {
  if (!gliding) return;
  if (!from) {
    card.animate([{ opacity: 0 }, { opacity: 1 }], GLIDE);
    return;
  }
  const now = card.getBoundingClientRect();
  const [dx, dy] = [from.left - now.left, from.top - now.top];
  if ((dx || dy) && (inView(from) || inView(now))) {
    card.animate([{ transform: `translate(${dx}px, ${dy}px)` }, { transform: "none" }], GLIDE);
  }
}
