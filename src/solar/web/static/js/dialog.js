// Dialogs: over the page until they are closed, then gone.

import { el } from "./dom.js";

/** Opens a dialog with a heading; Escape or a click beside it closes it. */
export function openDialog(kind, heading, ...children) {
  const dialog = el(
    `dialog.${kind}`,
    { "aria-labelledby": "dialog-title", tabindex: "-1" },
    el("h2", { id: "dialog-title" }, heading),
    ...children,
  );
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
