// Texts that leave the page: as files, or by the clipboard.

import { el } from "./dom.js";

/** Has the browser save a text as a file. */
export function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Rows of values as CSV. */
export function csv(rows) {
  const cell = (value) =>
    /[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : (value ?? "");
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
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
