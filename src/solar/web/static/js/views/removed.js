// Removed photos: what was taken out of the collection by hand, and the way back.

import { get } from "../api.js";
import { button, el, refill, refocus, viewHead } from "../dom.js";
import { putBack } from "../filters/removal.js";
import { nothing, problem, telling } from "../notice.js";
import { counted } from "../words.js";

/** Makes the view in `root`. */
export function removed(root, { info }) {
  const list = el("ul.removed-list", { "aria-label": "Removed photos" });
  const note = el("p.facts", { role: "status" });
  const all = button("Put all back", { on: () => back(names()) });
  root.append(el("div.removed", {}, viewHead("Removed photos", note, all), list));

  const names = () => [...list.children].map((item) => item.dataset.name);

  async function load() {
    try {
      const found = await get("/photos/removed");
      refill(list, found.names.map(item));
      note.textContent = found.names.length ? counted(found.names.length, "photo") : "";
      if (found.names.length < 2 && document.activeElement === all) refocus(list.querySelector("button"));
      all.hidden = found.names.length < 2;
      if (!found.names.length) list.replaceChildren(nothing("No photo was removed."));
    } catch (error) {
      list.replaceChildren(problem(error, load));
    }
  }

  const item = (name) =>
    el(
      "li",
      { "data-name": name },
      el("span", {}, name),
      button("Put back", { symbol: "undo", "aria-label": `Put back ${name}`, on: () => back([name]) }),
    );

  const back = telling(async (wanted) => {
    if (list.ariaBusy) return;
    list.ariaBusy = "true";
    try {
      await putBack(wanted, info);
    } finally {
      list.ariaBusy = null;
      await load();
    }
  });

  load();
  return { title: "Removed photos", show() {} };
}
