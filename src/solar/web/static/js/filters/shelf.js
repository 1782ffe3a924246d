// The tools of a grid of photos: their order, the filters in force, what is selected, and a link.

import { button, el } from "../dom.js";
import { copyPaths } from "../files.js";
import { chips } from "./chips.js";
import { copyLink } from "./links.js";
import { removalDialog } from "./removal.js";
import { selection } from "./selection.js";
import { sorter } from "./sorting.js";

/**
 * @param {object} given
 * @param {object} given.info What the server told of itself.
 * @param {string[][]} given.orders Of `sorting.js`.
 * @param {function(object)} given.change Called with the parameters of the address that changed.
 * @param {function()} given.filter Shows the fields to filter by, and goes there.
 * @param {?function()} given.fold Shows or hides them, where a button is to; `unfolded(open)` then tells.
 * @param {function(Set<string>=)} given.changed Called with the ids of photos that are gone, or
 *   with nothing once some of them are back.
 * @param {?object} given.every How many photos there are besides those shown, and how they are got.
 */
export function shelf({ info, orders, change, changed, filter, fold = null, every = null }) {
  let params = {};
  const sort = sorter(orders, info, change);
  const inForce = chips(change);
  let picked = null;

  const remove = (photos) =>
    removalDialog(photos, info, (gone) => {
      picked.clear();
      changed(gone);
    });

  const actions = [
    ["Copy paths", copyPaths],
    info.settings.writable && ["Remove", remove, "danger"],
  ].filter(Boolean);

  const link = () => copyLink(params);
  const filters = fold && button("Filters", { title: "Filters (f)", on: fold });
  const tools = el(
    "div.shelf",
    { role: "group", "aria-label": "Order and selection" },
    sort.element,
    filters,
    button("Select", { symbol: "tick", title: "Select photos (x)", on: () => picked.begin() }),
    button("Copy link", { title: "Copy a link to this search (S)", on: link }),
  );

  return {
    /** Above the grid. */
    tools: el("div.shelf-head", {}, tools, inForce.element),
    /** Says which grid; gives what stands below it. */
    below(list) {
      picked = selection(list, actions, every);
      return picked.element;
    },
    /** A card with a box to select it. */
    on: (card, photo) => picked.on(card, photo),
    show(next) {
      params = next;
      sort.show(params);
      inForce.show(params);
    },
    paint: () => picked.paint(),
    /** What a menu offers for a photo. */
    actions: (photo) => [
      {
        text: "Select",
        symbol: "tick",
        key: "x",
        on: (event) => (event?.key === "X" ? picked.reach : picked.toggle)(photo.id),
      },
      info.settings.writable && {
        text: "Remove from the collection",
        symbol: "close",
        kind: "danger",
        on: () => remove([photo]),
      },
    ],
    unfolded: (open) => filters.setAttribute("aria-expanded", String(open)),
    keys: {
      f: filter,
      S: link,
      "*": () => picked.all(),
      get Escape() {
        return picked.size ? picked.clear : undefined;
      },
    },
  };
}
