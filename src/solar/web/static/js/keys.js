// The keyboard: what each key does, and the dialog that tells.

import { closeRow, openDialog } from "./dialog.js";
import { el } from "./dom.js";
import { VERDICTS } from "./words.js";

const LEGEND = [
  ["same", "The details of both photos match: this is confirmed."],
  ["probable", "Very similar, but not enough details match to confirm it."],
  ["similar", "It looks alike; nothing says that it is the same place."],
];

const HELP = {
  Everywhere: [
    ["?", "This help"],
    ["Esc", "Close, or go back"],
    ["/", "Find photos by name"],
    ["t", "Search by text, if the model supports it"],
    ["c", "Compare two search settings"],
    ["e", "The map"],
    ["g", "Albums, if there are any"],
    ["d", "Review duplicates, if there is a report; that view lists its own keys"],
    ["l", "Attention maps of the query, or of the focused photo"],
  ],
  "Photos and results": [
    ["← ↑ ↓ →", "Move between cards"],
    ["Enter", "Open the photo"],
    ["q", "Search with the photo"],
    ["w", "What looks alike in it and the query"],
    ["m", "Its matching details with the query"],
    ["+ -", "More like this, less like this"],
    ["s", "Search again with those"],
    ["a", "Add it to this search"],
    ["f", "Go to the filters"],
    ["x", "Select or deselect it"],
    ["X", "Select all from the last selected photo to this one"],
    ["*", "Select all photos; Esc clears the selection"],
    ["S", "Save the search, copy its link, or open a saved search"],
    ["b", "Draw a box on the query: arrows move it, Shift and arrows resize it, Delete removes it"],
  ],
  "An open photo": [
    ["← →", "Previous or next photo"],
    ["+ -", "Zoom in or out"],
    ["0 1", "Whole photo, or original pixels"],
    ["Shift ← →", "Pan; also with ↑ and ↓"],
    ["q w m l", "Search with it, what looks alike, matching details, attention map"],
    ["o d", "Open or download the original"],
    ["i", "Show or hide the photo details"],
  ],
  "Attention map, what looks alike, map": [
    ["← ↑ ↓ →", "Move the star or the region. Map: ↓ goes to the map, then all go to the next photo"],
    ["4 5", "Choose the layer"],
    ["+ - 0", "Map: zoom in, zoom out, show the whole map"],
    ["Space v b", "Map: select the photo, all in view, or all in a box"],
    ["Shift ← →", "Map: select photos on the way; also with ↑ and ↓; Esc selects none"],
    ["Enter q", "Map: open the photo, or search with it"],
  ],
};

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
    if (document.querySelector("dialog[open], .menu")) return;
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
  const row = ([key, text]) =>
    el(
      "div",
      {},
      el("dt", {}, ...key.split(" ").map((one) => el("kbd", {}, one))),
      el("dd", {}, text),
    );
  const groups = Object.entries(HELP).map(([name, rows]) =>
    el("section", {}, el("h3", {}, name), el("dl", {}, ...rows.map(row))),
  );
  const dialog = openDialog(
    "help",
    "Help",
    el(
      "dl.legend-words",
      {},
      ...LEGEND.map(([verdict, text]) =>
        el(
          "div",
          { "data-verdict": verdict },
          el("dt.verdict-words", {}, VERDICTS[verdict]),
          el("dd", {}, text),
        ),
      ),
    ),
    el("h2", {}, "Keyboard"),
    el("div.help-groups", {}, ...groups),
    el(
      "p.soft",
      {},
      "Drop photos anywhere on the page, or paste them. In an open photo, use the wheel, pinch or double-click to zoom, drag to pan, and swipe for the next photo.",
    ),
    closeRow(el("a", { href: "api/v1/openapi.json" }, "API (OpenAPI)")),
  );
  // Neither button is what one came for, and on a phone they are far below.
  dialog.focus();
  dialog.scrollTop = 0;
}
