// Photos from outside: picked, dropped or pasted.

import { post } from "./api.js";
import { button, el } from "./dom.js";
import { bytes } from "./words.js";

/** Sends a photo to search with, and gives what the server knows of it. */
export async function upload(file, info) {
  const most = info.settings.max_upload_bytes;
  if (file.size > most) {
    throw new Error(
      `${file.name} has ${bytes(file.size)}, but the limit is ${bytes(most)}.`,
    );
  }
  const form = new FormData();
  form.append("photo", file, file.name || "pasted.png");
  return post("/queries", form);
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
