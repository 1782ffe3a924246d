// The keyboard: what each key does, and the dialog that tells.

import { button, el } from "./dom.js";

const HELP = [
  ["/", "Find a photo by its name"],
  ["← ↑ ↓ →", "Move in the grid, on the map, on a photo"],
  ["Enter", "Search with the photo"],
  ["t", "Write what the photos show, if the model reads words"],
  ["b", "A box on the photo: arrows move it, Shift and arrows resize it, Delete removes it"],
  ["l", "Look where the photo attends"],
  ["w", "Why the query and the photo are similar"],
  ["m", "Matches of the query and the photo"],
  ["+ -", "Tick or cross the result"],
  ["a", "Add the result to the query"],
  ["s", "Search again with what is ticked and crossed"],
  ["c", "Compare two settings"],
  ["e", "Explore the map"],
  ["d", "Go through duplicates, if there is a report; its keys are listed there"],
  ["Esc", "Back"],
  ["?", "This help"],
];

const isTyping = (target) =>
  target.closest?.(
    "input:not([type=range]):not([type=checkbox]):not([type=radio]), textarea, select",
  );

/**
 * Listens to keys.
 * @param {function(string): (function|undefined)} action What a key does at the moment.
 */
export function watchKeys(action) {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      // Who has typed what to find goes on to what was found.
      if (event.key === "Enter" && event.target.type === "search") action("ArrowDown")?.();
      return;
    }
    const act = action(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  });
}

/** Opens the help. */
export function help() {
  const rows = HELP.map(([key, text]) =>
    el(
      "div",
      {},
      el("dt", {}, ...key.split(" ").map((one) => el("kbd", {}, one))),
      el("dd", {}, text),
    ),
  );
  const dialog = el(
    "dialog.help",
    { "aria-labelledby": "help-title", tabindex: "-1" },
    el("h2", { id: "help-title" }, "Keyboard"),
    el("dl", {}, ...rows),
    el("p.soft", {}, "Photos can be dropped anywhere on the page, or pasted."),
    el(
      "div.row.end",
      {},
      el("a", { href: "docs" }, "The API for programs"),
      button("Close", { kind: "primary", on: () => dialog.close() }),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  // Neither button is what one came for, and on a phone they are far below.
  dialog.focus();
}
