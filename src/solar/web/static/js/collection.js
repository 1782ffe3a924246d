// What the page knows of the collection, after it has changed.

import { get } from "./api.js";
import { forgetFacets } from "./filters/facets.js";
import { forgetPhotos } from "./photos.js";
import { forgetSearches } from "./searches.js";
import { count } from "./words.js";

/** Forgets what was known of the collection, and asks how large it is now. */
export async function relearn(info) {
  forgetSearches();
  forgetPhotos();
  forgetFacets();
  const fresh = await get("/info");
  info.photos = fresh.photos;
  document.getElementById("collection").textContent = `${fresh.name} · ${count(fresh.photos)}`;
}
