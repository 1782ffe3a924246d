// What the page tells visitors: short notices, spoken results, failures with a way on.

import { button, el, icon, refocus, unfocused } from "./dom.js";

const STAYS = 6000;
const STAYS_TO_ACT = 15_000;

/** Shows a sentence for a while, perhaps with something to do; one that is there is not repeated. */
export function notify(sentence, kind = "", action = null) {
  const toasts = document.getElementById("toasts");
  for (const one of toasts.children) if (one.dataset.said === sentence) one.remove();
  const act = () => {
    toast.remove();
    if (unfocused()) refocus();
    action.on();
  };
  // Who is at its button still wants it.
  const fade = () => (action && toast.matches(":hover, :focus-within") ? later() : toast.remove());
  const later = () => setTimeout(fade, action ? STAYS_TO_ACT : STAYS);
  const toast = el(
    "div.toast",
    { "data-kind": kind, "data-said": sentence },
    sentence,
    action && button(action.text, { on: act }),
  );
  toasts.append(toast);
  if (toasts.children.length > 3) toasts.firstChild.remove();
  // What is waited for goes when it is done.
  if (kind !== "waiting") later();
  return toast;
}

/** Does `work`, asynchronous, with what it is given; a notice tells where that fails. */
export const telling = (work) => async (...given) => {
  try {
    await work(...given);
  } catch (error) {
    notify(error.message, "bad");
  }
};

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
