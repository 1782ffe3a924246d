// Where a visitor chooses a photo: their own, or one of the collection.

import { browser } from "./browse.js";
import { el, icon } from "./dom.js";
import { filePicker } from "./upload.js";

/**
 * Fills `root`, and gives what a view has to give, with `photos` of `browser`.
 * @param {{title: string, text: string, open?: function, actions?: function, take: function(File[]), more?: Node,
 *   shelving?: object}} given
 */
export function picker(root, { title, text, open, actions, take, more = null, shelving = null }) {
  const photos = browser({ open, actions }, shelving);
  const zone = el(
    "section.dropzone",
    { "aria-label": title },
    icon("photo"),
    el("h1", {}, title),
    el("p.soft", {}, text),
    filePicker("Choose a photo", {}, take),
    el("p.hint", {}, "or drop one anywhere, paste it, or choose one below"),
    more,
  );
  root.append(el("div.picker", {}, zone, photos.element));
  return { photos, leave: photos.stop, keys: { "/": photos.find, ArrowDown: photos.focus } };
}
