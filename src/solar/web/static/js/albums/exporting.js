// Albums as files: JSON, CSV, or a plain list of paths.

import { text } from "../api.js";
import { button, el } from "../dom.js";
import { telling } from "../notice.js";
import { save } from "../files.js";

const FORMS = [
  ["JSON", "json", "application/json", "json"],
  ["CSV", "csv", "text/csv", "csv"],
  ["List of paths", "paths", "text/plain", "txt"],
];

/** Buttons that save all albums of a collection, or one. */
export function exportButtons(collection, album = null) {
  const write = telling(async ([, form, type, ending]) => {
    const wanted = new URLSearchParams({ form, ...(album && { album }) });
    const name = [collection, "groups", album, ending].filter(Boolean).join(".");
    save(name, type, await text(`/albums/export?${wanted}`, { accept: "*/*" }));
  });
  return el(
    "div.row.album-export",
    { role: "group", "aria-label": album ? "Export the album" : "Export all albums" },
    el("span.soft", {}, "Export"),
    ...FORMS.map((form) => button(form[0], { on: () => write(form) })),
  );
}
