// The page that `solar duplicates --html` writes: its groups are in the file itself.

import { watchKeys } from "../keys.js";
import { paged } from "./pages.js";
import { review } from "./review.js";

const read = (element) => JSON.parse(element.textContent);
const overview = read(document.getElementById("overview"));
const chunks = [...document.querySelectorAll("script.groups")];

/** Groups from an offset on; only the pieces of the file that hold them are parsed. */
async function page(offset, limit) {
  const first = Math.floor(offset / overview.chunk);
  const last = Math.floor((offset + limit - 1) / overview.chunk);
  const groups = chunks.slice(first, last + 1).flatMap(read);
  return groups.slice(offset - first * overview.chunk).slice(0, limit);
}

const shown = review(document.getElementById("main"), paged(overview, page));
shown.start({});
watchKeys((key) => shown.keys[key]);
