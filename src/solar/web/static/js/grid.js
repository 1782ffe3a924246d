// A grid of cards: arrows move in it, and cards glide to where a new ranking puts them.

import { calm, el } from "./dom.js";

const GLIDE = { duration: 420, easing: "cubic-bezier(.2,.8,.2,1)" };

/**
 * @param {string} label What the grid holds.
 * @param {function(object): HTMLElement} make A card from an item with an `id`.
 */
export function createGrid(label, make) {
  const list = el("ul.grid", { "aria-label": label });
  let focused = null;

  const cards = () => [...list.children];

  function reach(card) {
    for (const part of focused?.querySelectorAll("a, button") ?? []) part.tabIndex = -1;
    focused = card ?? null;
    for (const part of focused?.querySelectorAll("a, button") ?? []) part.tabIndex = 0;
  }

  function columns() {
    const all = cards();
    const below = all.findIndex((one) => one.offsetTop > all[0].offsetTop);
    return below < 0 ? all.length : below;
  }

  list.addEventListener("focusin", (event) => reach(event.target.closest(".card")));
  list.addEventListener("keydown", (event) => {
    const step = {
      ArrowLeft: () => -1,
      ArrowRight: () => 1,
      ArrowUp: () => -columns(),
      ArrowDown: columns,
    }[event.key];
    if (!step || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = cards();
    const next = all[all.indexOf(focused) + step()];
    event.preventDefault();
    next?.querySelector("a").focus();
  });

  function put(items) {
    const before = focused?.dataset.id;
    list.replaceChildren(...items.map(make));
    reach(cards().find((one) => one.dataset.id === before) ?? list.firstElementChild);
  }

  return {
    element: list,
    /** Shows these and no others; those that stay glide from where they were. */
    set(items, { glide = false } = {}) {
      const typing = list.contains(document.activeElement);
      const before = glide && !calm() ? places(cards()) : new Map();
      put(items);
      if (typing) focused?.querySelector("a").focus({ preventScroll: true });
      for (const one of cards()) slide(one, before.get(one.dataset.id), before.size > 0);
    },
    append(items) {
      list.append(...items.map(make));
      if (!focused) reach(list.firstElementChild);
    },
    focus() {
      (focused ?? list.firstElementChild)?.querySelector("a").focus();
    },
    /** The id of the card that has the focus. */
    get current() {
      return list.contains(document.activeElement) ? focused?.dataset.id : null;
    },
  };
}

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
  const near = Math.min(from.top, now.top) < innerHeight && Math.max(from.bottom, now.bottom) > 0;
  if ((dx || dy) && near) {
    card.animate([{ transform: `translate(${dx}px, ${dy}px)` }, { transform: "none" }], GLIDE);
  }
}
