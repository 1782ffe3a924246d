// Asks for the token of a server that wants one; it is kept until the tab closes.

import { button, el } from "./dom.js";

let asking = null;

/** Resolves once the visitor has given a token; many may wait for the same answer. */
export function askForToken(wrong) {
  asking ??= open(wrong).finally(() => (asking = null));
  return asking;
}

function open(wrong) {
  return new Promise((resolve) => {
    const field = el("input", {
      type: "password",
      id: "token",
      autocomplete: "current-password",
      required: true,
      "aria-describedby": "token-why",
    });
    const why = wrong
      ? "Wrong token. Ask whoever started the server for it."
      : "Enter the access token of this server.";
    const form = el(
      "form",
      {
        on: {
          submit: (event) => {
            event.preventDefault();
            sessionStorage.setItem("solar-token", field.value.trim());
            dialog.close();
          },
        },
      },
      el("h2", {}, "Sign in"),
      el("p", { id: "token-why" }, why),
      el("label.field", {}, el("span", {}, "Token"), field),
      el("div.row.end", {}, button("Continue", { kind: "primary", type: "submit" })),
    );
    const dialog = el("dialog.small", { on: { cancel: (event) => event.preventDefault() } }, form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
