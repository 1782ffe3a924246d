// The collection, page by page, with a field to find photos by name.

import { get } from "./api.js";
import { card } from "./card.js";
import { el } from "./dom.js";
import { endless } from "./endless.js";
import { createGrid } from "./grid.js";
import { nothing } from "./notice.js";
import { field } from "./options.js";
import { counted } from "./words.js";

const PAGE = 60;

/**
 * @param {function(string): {search: string, look?: string}} links Where the photo of an id leads.
 */
export function browser(links) {
  const grid = createGrid("Photos of the collection", (one) => card(one, links(one.id)));
  const total = el("span.soft", { role: "status" });
  const empty = el("div");
  const find = field("Find by name", { type: "search", placeholder: "Part of a name" }, begin);
  let wanted = "";
  let loaded = 0;

  const list = endless(async () => {
    const asked = wanted;
    const query = new URLSearchParams({
      offset: loaded,
      limit: PAGE,
      ...(asked && { search: asked }),
    });
    const page = await get(`/photos?${query}`);
    if (asked !== wanted) return true;
    loaded += page.photos.length;
    grid.append(page.photos);
    total.textContent = counted(page.total, "photo");
    if (!page.total)
      empty.replaceChildren(
        nothing(asked ? `No photo is called “${asked}”.` : "This collection is empty."),
      );
    return loaded < page.total && page.photos.length > 0;
  });

  function begin(text) {
    wanted = text;
    loaded = 0;
    grid.set([]);
    empty.replaceChildren();
    list.start();
  }

  begin("");
  return {
    element: el(
      "section.browse",
      { "aria-label": "The collection" },
      el("div.browse-head", {}, el("h2", {}, "The collection"), total, find),
      grid.element,
      empty,
      list.element,
    ),
    find: () => find.querySelector("input").focus(),
    get current() {
      return grid.current;
    },
    focus: grid.focus,
    stop: list.stop,
  };
}
