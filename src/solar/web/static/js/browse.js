// The collection, page by page, with a field to find photos by name, and perhaps filters.

import { get } from "./api.js";
import { card } from "./card.js";
import { el } from "./dom.js";
import { endless } from "./endless.js";
import { browseQuery, FILTERS } from "./filters/address.js";
import { filterFields } from "./filters/fields.js";
import { savedList } from "./filters/saved.js";
import { shelf } from "./filters/shelf.js";
import { PHOTOS } from "./filters/sorting.js";
import { createGrid } from "./grid.js";
import { nothing } from "./notice.js";
import { field } from "./options.js";
import { counted } from "./words.js";

const PAGE = 60;

/**
 * @param {function(string): {search: string, look?: string}} links Where the photo of an id leads.
 * @param {?{info: object, change: function(object)}} shelving Where filters, order and selection
 *   are wanted: what the server told of itself, and what is called with the parameters of the
 *   address that changed; `show(params)` then begins.
 */
export function browser(links, shelving = null) {
  const tools =
    shelving && shelf({ ...shelving, orders: PHOTOS, filter, fold, removed: () => begin(wanted) });
  const fields = shelving && filterFields(shelving.change);
  const grid = createGrid("Photos of the collection", (one) => {
    const made = card(one, links(one.id));
    return tools ? tools.on(made, one) : made;
  });
  const bar = tools && tools.below(grid.element);
  const total = el("span.soft", { role: "status" });
  const empty = el("div");
  const saved = el("div");
  const change = shelving?.change ?? begin;
  const find = field("Find by name", { type: "search", placeholder: "Part of a name" }, (name) =>
    change({ name }),
  );
  let wanted = {};
  let loaded = 0;
  let awaited = false; // whether the first card takes the focus once it is there

  const list = endless(async () => {
    const asked = wanted;
    const page = await get(`/photos?${browseQuery(asked, { offset: loaded, limit: PAGE })}`);
    if (asked !== wanted) return true;
    loaded += page.photos.length;
    grid.append(page.photos);
    tools?.paint();
    if (awaited) grid.focus();
    awaited = false;
    total.textContent = counted(page.total, "photo");
    if (!page.total) empty.replaceChildren(nothing(lack(asked)));
    return loaded < page.total && page.photos.length > 0;
  });

  function begin(params) {
    wanted = { ...params };
    loaded = 0;
    awaited ||= grid.current !== null;
    grid.set([]);
    empty.replaceChildren();
    list.start();
  }

  function focus() {
    grid.focus(); // leaving the field may begin a list
    awaited = loaded === 0;
  }

  // Who types on does not go on to what was found.
  find.addEventListener("input", () => (awaited = false));

  function unfold(open) {
    fields.element.hidden = !open;
    tools.unfolded(open);
  }

  function filter() {
    unfold(true);
    fields.focus();
  }

  function fold() {
    if (fields.element.hidden) filter();
    else unfold(false);
  }

  if (shelving) unfold(false);

  let shown = null;

  /** Shows what the parameters of an address ask for. */
  function show(params) {
    tools.show(params);
    fields.show(params);
    saved.replaceChildren(...[savedList(shelving.info)].filter(Boolean));
    const input = find.querySelector("input");
    if (input !== document.activeElement) input.value = params.name ?? "";
    if (FILTERS.some((name) => name !== "name" && params[name])) unfold(true);
    const query = String(browseQuery(params, {}));
    if (query === shown) return;
    shown = query;
    begin(params);
  }

  if (!shelving) begin({});
  return {
    element: el(
      "section.browse",
      { "aria-label": "The collection" },
      saved,
      el("div.browse-head", {}, el("h2", {}, "The collection"), total, find),
      tools && tools.tools,
      fields && fields.element,
      grid.element,
      empty,
      list.element,
      bar,
    ),
    find: () => find.querySelector("input").focus(),
    get current() {
      return grid.current;
    },
    focus,
    stop: list.stop,
    show,
    tools,
  };
}

function lack(params) {
  if (FILTERS.some((name) => name !== "name" && params[name])) return "No photos match these filters.";
  return params.name ? `No photo name contains “${params.name}”.` : "This collection is empty.";
}
