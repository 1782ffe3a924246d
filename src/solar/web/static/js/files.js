// Texts that leave the page: as files, or by the clipboard.

import { el } from "./dom.js";
import { notify } from "./notice.js";
import { counted } from "./words.js";

/** Has the browser save a text as a file. */
export function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Copies a text, and gives whether that worked. */
export async function copy(text) {
  // Browsers have a clipboard only for pages that come encrypted or from this machine.
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(() => true, () => false);
  }
  const before = document.activeElement;
  const area = el("textarea.unseen", { "aria-hidden": "true", tabindex: "-1" });
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  before?.focus({ preventScroll: true });
  return copied;
}

/** Copies the paths of photos, one per line, as the index has them. */
export async function copyPaths(photos) {
  const done = await copy(photos.map((photo) => `${photo.name}\n`).join(""));
  if (done) notify(`${counted(photos.length, "path")} copied.`);
  else notify("The browser does not allow copying.", "bad");
}
