// What the page tells visitors: short notices, spoken results, failures with a way on.

import { button, el, icon } from "./dom.js";

const STAYS = 5000;

/** Shows a sentence for a while. */
export function notify(sentence, kind = "") {
  const toast = el("div.toast", { "data-kind": kind }, sentence);
  document.getElementById("toasts").append(toast);
  setTimeout(() => toast.remove(), STAYS);
}

/** Says a sentence to those who listen to the page. */
export function say(sentence) {
  document.getElementById("spoken").textContent = sentence;
}

/** A failure in place of what could not be shown; what is gone is not worth trying again. */
export function problem(error, again = null) {
  return el(
    "div.problem",
    { role: "alert" },
    icon("photo"),
    el("p", {}, error.message),
    again && error.status !== 404 && button("Try again", { on: again }),
  );
}

/** A friendly line where there is nothing to show. */
export function nothing(sentence, ...more) {
  return el("div.nothing", {}, icon("photo"), el("p", {}, sentence), ...more);
}

/** Keeps a banner up while the browser is offline. */
export function watchConnection() {
  const banner = document.getElementById("banner");
  const show = () => {
    banner.hidden = navigator.onLine;
    banner.textContent = navigator.onLine ? "" : "You are offline. What is already on the page stays.";
  };
  addEventListener("online", show);
  addEventListener("offline", show);
  show();
}
