// An album in the list: its cover, some more of its photos, how many it has and how well they agree.

import { thumbnail } from "../card.js";
import { el } from "../dom.js";
import * as route from "../route.js";
import { counted } from "../words.js";

const AGREEMENT = "The share of the other photos of the album that a photo matches, on average";

/** How well the photos of an album agree. */
export const agreementOf = ({ agreement }) =>
  el("span.album-agreement", { title: AGREEMENT }, `agreement ${Math.round(100 * agreement)} %`);

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
        "aria-label": `Album of ${facts}, with ${first.name}`,
        tabindex: "-1",
      },
      el("span.album-first", {}, picture(first)),
      more.length > 0 && el("span.album-strip", {}, ...more.map(picture)),
    ),
    el("div.album-facts", {}, el("b", {}, facts), agreementOf(album)),
  );
}

/** A photo, or a place for one that the index does not have any more. */
function picture(photo) {
  return photo.thumbnail ? thumbnail(photo) : el("span.album-gone", { title: photo.name }, "missing");
}
