// A menu of words: below the button that opens it, or at the bottom of a phone.

import { el, icon, style } from "./dom.js";

const GAP = 6;
const STEPS = { ArrowDown: 1, ArrowUp: -1 };

/**
 * Opens a menu.
 * @param {HTMLElement} anchor The button that was pressed.
 * @param {object[]} items Each with `text`, and `href` or `on`.
 */
export function openMenu(anchor, items) {
  const entries = items.map(({ text, symbol, href, on, pressed, kind = "" }) => {
    const act = () => {
      menu.hidePopover();
      on?.();
    };
    const state = pressed === undefined ? {} : { "aria-checked": String(Boolean(pressed)) };
    const role = pressed === undefined ? "menuitem" : "menuitemcheckbox";
    return el(
      href ? "a.menu-item" : "button.menu-item",
      { ...(href ? { href } : { type: "button" }), role, ...state, "data-kind": kind, on: { click: act } },
      icon(pressed ? "tick" : (symbol ?? "none")),
      el("span", {}, text),
    );
  });
  const menu = el("div.menu", { popover: "auto", role: "menu" }, ...entries);
  menu.addEventListener("keydown", (event) => {
    const by = STEPS[event.key];
    if (!by) return;
    event.preventDefault();
    const at = entries.indexOf(document.activeElement);
    entries[(at + by + entries.length) % entries.length].focus();
  });
  menu.addEventListener("toggle", ({ newState }) => {
    if (newState === "open") return;
    if (menu.contains(document.activeElement) || document.activeElement === document.body) {
      anchor.focus({ preventScroll: true });
    }
    menu.remove();
  });
  // What is outside of an open dialog cannot be reached.
  (anchor.closest("dialog") ?? document.body).append(menu);
  menu.showPopover();
  place(menu, anchor.getBoundingClientRect());
  entries[0].focus({ preventScroll: true });
}

/** Puts the menu below the button, or above it where there is no room. */
function place(menu, button) {
  const { width, height } = menu.getBoundingClientRect();
  const below = button.bottom + GAP;
  const top = below + height < innerHeight ? below : button.top - GAP - height;
  const left = Math.min(button.left, innerWidth - width - GAP);
  style(menu, { "--top": `${Math.max(GAP, top)}px`, "--left": `${Math.max(GAP, left)}px` });
}
