// Photos from outside: picked, dropped or pasted.

import { isAbort, sendForm } from "./api.js";
import { button, el } from "./dom.js";
import { notify } from "./notice.js";
import { bytes, counted } from "./words.js";

/** Sends a photo to search with, and gives what the server knows of it; `options` of `sendForm`. */
export async function upload(file, info, options) {
  const most = info.settings.max_upload_bytes;
  if (file.size > most) {
    throw new Error(`${file.name} has ${bytes(file.size)}, but the limit is ${bytes(most)}.`);
  }
  const form = new FormData();
  form.append("photo", file, file.name || "pasted.png");
  try {
    return await sendForm("/queries", form, options);
  } catch (error) {
    if (!isAbort(error)) error.message = named(file, error.message);
    throw error;
  }
}

/** A failure with the name of its file. */
const named = ({ name }, sentence) => (!name || sentence.includes(name) ? sentence : `${name}: ${sentence}`);

/**
 * Sends photos to search with behind a notice that shows how far it is, and can stop it.
 * @returns {Promise<object[]>} What the server knows of each; nothing once it was stopped.
 */
export async function uploadAll(files, info) {
  const control = new AbortController();
  const bar = el("progress", { max: String(files.length), value: "0", "aria-label": "Progress" });
  const toast = notify(`Sending ${counted(files.length, "photo")}…`, "waiting", {
    text: "Cancel",
    on: () => control.abort(),
  });
  toast.append(bar);
  const photos = [];
  try {
    for (const file of files) {
      const sent = (share) => (bar.value = photos.length + share);
      photos.push(await upload(file, info, { sent, signal: control.signal }));
    }
    return photos;
  } catch (error) {
    if (!isAbort(error)) throw error;
    return [];
  } finally {
    toast.remove();
  }
}

/** A button that lets the visitor choose photos of the machine. */
export function filePicker(text, { multiple = false, kind = "primary" }, chosen) {
  const input = el("input", { type: "file", accept: "image/*", multiple, hidden: true });
  input.addEventListener("change", () => {
    if (input.files.length) chosen([...input.files]);
    input.value = "";
  });
  return el(
    "span.file-picker",
    {},
    button(text, { symbol: "photo", kind, on: () => input.click() }),
    input,
  );
}

/** Calls `take(files)` for photos dropped anywhere on the page or pasted. */
export function watchIncoming(take) {
  let depth = 0;
  const hovering = (change) => {
    depth = Math.max(0, change);
    document.body.classList.toggle("dropping", depth > 0);
  };
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragenter", (event) => hasFiles(event) && hovering(depth + 1));
  addEventListener("dragleave", (event) => hasFiles(event) && hovering(depth - 1));
  addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    hovering(0);
    take([...event.dataTransfer.files]);
  });
  addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) take(files);
  });
}
