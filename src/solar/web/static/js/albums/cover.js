// An album in the list: its cover, some more of its photos, its name and how many it has.

import { thumbnail } from "../card.js";
import { el } from "../dom.js";
import * as route from "../route.js";
import { counted } from "../words.js";

/** A card that opens an album. */
export function cover(album) {
  const [first, ...more] = album.photos;
  const facts = counted(album.count, "photo");
  return el(
    "li.card.album-card",
    { "data-id": album.id },
    el(
      "a.album-cover",
      {
        href: route.address("albums", [album.id]),
        "aria-label": `${album.name}, ${facts}`,
        tabindex: "-1",
      },
      el("span.album-first", {}, picture(first)),
      more.length > 0 && el("span.album-strip", {}, ...more.map(picture)),
    ),
    el("div.album-facts", {}, el("b", {}, album.name), facts),
  );
}

/** A photo, or a place for one that the index does not have any more. */
function picture(photo) {
  return photo.thumbnail ? thumbnail(photo) : el("span.album-gone", { title: photo.name }, "missing");
}
