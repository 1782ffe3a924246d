// Light, dark, or as the system has it.

import { icon } from "./dom.js";

const NEXT = { auto: "light", light: "dark", dark: "auto" };
const NAMES = { auto: "system", light: "light", dark: "dark" };

const current = () => document.documentElement.dataset.theme ?? "auto";

/** Makes a button go through the themes; `changed` is called after each step. */
export function themeButton(button, changed) {
  const show = () => {
    const now = current();
    button.replaceChildren(icon(now));
    const text = `Theme: ${NAMES[now]}. Change to ${NAMES[NEXT[now]]}.`;
    button.setAttribute("aria-label", text);
    button.title = text;
  };
  button.addEventListener("click", () => {
    choose(NEXT[current()]);
    show();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  show();
}

function choose(theme) {
  if (theme === "auto") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("solar-theme");
  } else {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("solar-theme", theme);
  }
}
