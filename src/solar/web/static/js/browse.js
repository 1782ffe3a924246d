// The collection, page by page, with a field to find photos by name, and perhaps filters.

import { get } from "./api.js";
import { card } from "./card.js";
import { el, refill } from "./dom.js";
import { endless } from "./endless.js";
import { browseQuery, FILTERS } from "./filters/address.js";
import { facets } from "./filters/facets.js";
import { filterFields, follow } from "./filters/fields.js";
import { shelf } from "./filters/shelf.js";
import { PHOTOS } from "./filters/sorting.js";
import { timeline } from "./filters/timeline.js";
import { createGrid } from "./grid.js";
import { nothing } from "./notice.js";
import { field } from "./options.js";
import { counted } from "./words.js";

const PAGE = 60;
const MOST = 200; // in one request

/**
 * @param {{open?: function(string): string, actions?: function(object): object[]}} given Where the
 *   picture of an id leads, and what can be done with a photo.
 * @param {?{info: object, change: function(object)}} shelving Where filters, order and selection
 *   are wanted: what the server told of itself, and what is called with the parameters of the
 *   address that changed; `show(params)` then begins.
 */
export function browser({ open, actions }, shelving = null) {
  const tools =
    shelving &&
    shelf({ ...shelving, orders: PHOTOS, filter, fold, changed, every: { count: () => known, load } });
  const fields = shelving && filterFields(shelving.change);
  const grid = createGrid("Photos of the collection", (one) => {
    const all = actions && (() => [...actions(one), ...(tools?.actions(one) ?? [])]);
    const made = card(one, { open: open?.(one.id), actions: all });
    return tools ? tools.on(made, one) : made;
  });
  const bar = tools && tools.below(grid.element);
  const total = el("span.soft", { role: "status" });
  const empty = el("div");
  const times = el("div");
  const change = shelving?.change ?? begin;
  const find = field("Find by name", { type: "search", placeholder: "Words or a year" }, (name) =>
    change({ name }),
  );
  let wanted = {};
  let loaded = 0;
  let known = 0; // how many photos there are
  let first = PAGE; // how many are asked for at first
  let awaited = false; // whether the first card takes the focus once it is there

  const piece = (offset, limit, signal) =>
    get(`/photos?${browseQuery(wanted, { offset, limit })}`, { signal });

  const list = endless(async (signal) => {
    const page = await piece(loaded, loaded ? PAGE : first, signal);
    if (loaded) grid.append(page.photos);
    else grid.set(page.photos); // until now, what was there before stayed
    loaded += page.photos.length;
    count(page.total);
    if (awaited) grid.focus();
    awaited = false;
    empty.replaceChildren(...(page.total ? [] : [nothing(lack(wanted))]));
    return loaded < page.total && page.photos.length > 0;
  });

  function count(photos) {
    known = photos;
    total.textContent = counted(known, "photo");
    tools?.paint();
  }

  /** Takes out photos that are gone, by id; begins anew where that would not leave what is there. */
  function changed(gone) {
    if (!gone || gone.size === known || grid.drop(gone) < gone.size) {
      begin(wanted, loaded);
      return;
    }
    loaded -= gone.size;
    count(known - gone.size);
  }

  /** Gets all photos that there are. */
  async function load() {
    const all = [];
    while (all.length < known) {
      const page = await piece(all.length, MOST);
      if (!page.photos.length) break;
      all.push(...page.photos);
    }
    return all;
  }

  function begin(params, least = PAGE) {
    wanted = { ...params };
    first = Math.min(Math.max(least, PAGE), MOST);
    loaded = 0;
    list.start(true);
  }

  function focus() {
    grid.focus(); // leaving the field may begin a list
    awaited = grid.current === null;
  }

  // Who types on does not go on to what was found.
  find.addEventListener("input", () => (awaited = false));

  function unfold(open) {
    for (const part of [fields.element, fields.advanced]) part.hidden = !open;
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

  function showTimes(params) {
    const drawn = ({ months }) => months.length > 1 && timeline(months, params, change);
    facets().then(
      (there) => refill(times, [drawn(there)]),
      () => {}, // the list itself says what is wrong
    );
  }

  /** Shows what the parameters of an address ask for. */
  function show(params) {
    tools.show(params);
    fields.show(params);
    if (shelving) showTimes(params);
    follow({ name: find }, params);
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
      el("div.browse-head", {}, el("h2", {}, "The collection"), total, find),
      times,
      tools && tools.tools,
      fields && fields.element,
      fields && fields.advanced,
      grid.element,
      empty,
      list.element,
      bar,
    ),
    find: () => find.querySelector("input").focus(),
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
