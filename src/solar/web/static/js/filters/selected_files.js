// The selection as a list of paths, as JSON and as CSV.

import { copy, csv, save } from "../files.js";
import { notify } from "../notice.js";
import { counted } from "../words.js";

const FACTS = ["label", "taken", "camera", "width", "height", "rank", "score", "probability"];

/** Copies the paths of photos, one per line, as the index has them. */
export async function copyPaths(photos) {
  const done = await copy(photos.map((photo) => `${photo.name}\n`).join(""));
  if (done) notify(`${counted(photos.length, "path")} copied.`);
  else notify("The browser does not allow copying: save the paths as CSV instead.", "bad");
}

/** Saves what is known of photos as JSON. */
export function saveJson(photos, collection) {
  const known = photos.map(({ name, position, tags, ...more }) => ({
    path: name,
    tags,
    position,
    ...Object.fromEntries(FACTS.filter((fact) => fact in more).map((fact) => [fact, more[fact]])),
  }));
  const text = JSON.stringify({ format: "solar-selection-1", collection, photos: known }, null, 1);
  save(`${collection}.selection.json`, "application/json", text);
}

/** Saves what is known of photos as CSV, a row per photo. */
export function saveCsv(photos, collection) {
  const heading = ["path", "tags", "latitude", "longitude", ...FACTS];
  const rows = photos.map((photo) => [
    photo.name,
    (photo.tags ?? []).join(";"),
    ...(photo.position ?? ["", ""]),
    ...FACTS.map((fact) => photo[fact]),
  ]);
  save(`${collection}.selection.csv`, "text/csv", csv([heading, ...rows]));
}
