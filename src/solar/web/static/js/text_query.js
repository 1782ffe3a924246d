// Words to search with, where a model has a text side.

import { button, el } from "./dom.js";

/** The first model that reads words, or null. */
export const reader = (info) => info.models.find((model) => model.text) ?? null;

/**
 * A field for words, which are searched with when it is sent: half a word finds anything.
 * @param {string} value What is in it.
 * @param {function(string)} search Called with the words, or with nothing.
 */
export function textForm(value, search) {
  const input = el("input", {
    type: "text",
    name: "text",
    value,
    placeholder: "a red door",
    maxlength: "500",
    autocomplete: "off",
    enterkeyhint: "search",
  });
  const send = button("Search", { symbol: "search", type: "submit", title: "Search with words" });
  return el(
    "form.text-query",
    {
      "aria-label": "Search with words",
      on: {
        submit(event) {
          event.preventDefault();
          search(input.value.trim());
        },
      },
    },
    el("label.field", {}, el("span", {}, "In words"), input),
    send,
  );
}

/** What the server offers for a query: a text alone has no points to match. */
export function offered(info, { q }) {
  if (q) return info;
  const rerank = info.features.rerank.filter((method) => method.needs !== "photos");
  return { ...info, features: { ...info.features, rerank } };
}
