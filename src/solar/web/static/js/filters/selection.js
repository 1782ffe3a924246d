// Several photos of a grid, selected: by their boxes, from one to another, or all that are shown.

import { button, el } from "../dom.js";
import { say, telling } from "../notice.js";
import { count, counted } from "../words.js";

/**
 * @param {HTMLElement} list The grid.
 * @param {object[][]} actions What can be done with the selection: a text and a function of photos.
 * @param {?{count: function(): number, load: function(): Promise<object[]>}} every All photos, where
 *   more of them may be there than are shown.
 */
export function selection(list, actions, every = null) {
  const chosen = new Map(); // photos by id; some may be on no page any more
  const items = new Map();
  let anchor = null;
  let choosing = false; // whether the boxes stay although none is ticked

  const cards = () => [...list.querySelectorAll(":scope > .card")];
  const shown = () => cards().map((card) => card.dataset.id);

  const all = telling(async () => {
    for (const id of shown()) chosen.set(id, items.get(id));
    changed();
    if (!every || chosen.size >= every.count()) return;
    for (const photo of await every.load()) chosen.set(photo.id, photo);
    changed();
  });

  const text = el("span.selected-text", { role: "status" });
  const everything = button("Select all", { title: "Select all photos (*)", on: all });
  const bar = el(
    "div.selected",
    { role: "group", "aria-label": "Selected photos", hidden: true },
    text,
    everything,
    el(
      "div.row",
      {},
      ...actions.map(([name, act, kind = ""]) =>
        button(name, { kind, on: () => act([...chosen.values()]) }),
      ),
    ),
    button("Done", { title: "Clear the selection (Esc)", on: clear }),
  );

  function paint() {
    for (const card of cards()) mark(card);
    const there = new Set(shown());
    const hidden = [...chosen.keys()].filter((id) => !there.has(id)).length;
    text.textContent = `${count(chosen.size)} selected${hidden ? `, ${count(hidden)} not shown` : ""}`;
    const most = every?.count() ?? cards().length;
    everything.querySelector("span").textContent = `Select all ${count(most)}`;
    everything.hidden = chosen.size >= most;
    bar.hidden = !chosen.size && !choosing;
    list.classList.toggle("selecting", chosen.size > 0 || choosing);
  }

  function mark(card) {
    const on = chosen.has(card.dataset.id);
    card.classList.toggle("chosen", on);
    card.querySelector(".select-box")?.setAttribute("aria-checked", String(on));
  }

  function changed() {
    paint();
    say(chosen.size ? `${counted(chosen.size, "photo")} selected.` : "Nothing is selected.");
  }

  function toggle(id) {
    if (!chosen.delete(id)) chosen.set(id, items.get(id));
    anchor = id;
    changed();
  }

  /** Selects everything from the photo that was chosen last to this one. */
  function reach(id) {
    const ids = shown();
    const [from, to] = [ids.indexOf(anchor), ids.indexOf(id)].sort((a, b) => a - b);
    for (const one of ids.slice(from < 0 ? to : from, to + 1)) chosen.set(one, items.get(one));
    anchor = id;
    changed();
  }

  /** Shows the boxes of all cards. */
  function begin() {
    choosing = !choosing || chosen.size > 0;
    paint();
    if (choosing) list.querySelector(".select-box")?.focus({ preventScroll: true });
  }

  function clear() {
    const within = bar.contains(document.activeElement);
    chosen.clear();
    choosing = false;
    changed();
    // The button that was pressed is gone.
    if (within) list.querySelector(".card a[tabindex='0']")?.focus();
  }

  return {
    element: bar,
    begin,
    toggle,
    reach,
    all,
    clear,
    paint,
    get size() {
      return chosen.size || Number(choosing);
    },
    /** Puts a box on a card. */
    on(card, photo) {
      items.set(photo.id, photo);
      card.append(
        el("button.select-box", {
          type: "button",
          role: "checkbox",
          "aria-checked": "false",
          "aria-label": `Select ${photo.name}`,
          title: "Select (x); Shift-click selects all from the last one to this one",
          tabindex: "-1",
          on: { click: (event) => (event.shiftKey ? reach : toggle)(photo.id) },
        }),
      );
      mark(card);
      return card;
    },
  };
}
