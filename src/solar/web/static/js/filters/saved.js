// Searches that a visitor saved, with names. They stay in this browser.

import { closeRow, openDialog } from "../dialog.js";
import { button, el } from "../dom.js";
import { copy } from "../files.js";
import { notify } from "../notice.js";
import { photo } from "../photos.js";
import { shortName } from "../words.js";
import { lasting, uploaded } from "./links.js";

const MOST = 100;
const UPLOADED =
  "An uploaded photo cannot be part of a link, because the server does not keep it. Search with " +
  "a photo of the collection, or with words.";

// One site may have several collections, below paths of their own.
const key = (info) => `solar-searches:${location.pathname}:${info.name}`;

/** All saved searches: `{ name, address }`, the latest first. */
export function savedSearches(info) {
  try {
    const all = JSON.parse(localStorage.getItem(key(info)) ?? "[]");
    return all.filter((one) => typeof one?.name === "string" && /^#\//.test(one.address));
  } catch {
    return []; // somebody else's, or the browser keeps nothing
  }
}

function keep(info, all) {
  try {
    localStorage.setItem(key(info), JSON.stringify(all.slice(0, MOST)));
    return true;
  } catch {
    notify("The browser does not save data for this page: copy the link instead.", "bad");
    return false;
  }
}

/** Links to the saved searches; nothing where there are none. */
export function savedList(info) {
  const all = savedSearches(info);
  if (!all.length) return null;
  return el(
    "nav.saved",
    { "aria-label": "Saved searches" },
    el("span.soft", {}, "Saved:"),
    ...all.map(({ name, address }) => el("a.chip", { href: address }, name)),
  );
}

/** Opens a dialog to save the search of some parameters, copy its link, and go to saved ones. */
export function savedDialog(params, info) {
  const lost = uploaded(params);
  const name = el("input", { type: "text", maxlength: "80", autocomplete: "off", required: true });
  const list = el("ul.saved-list");
  const told = el("p.soft", { role: "status" });
  name.value = suggested(params);
  if (params.q && !lost) {
    photo(params.q).then(
      (found) => {
        // Not where somebody has begun to type.
        if (name.value !== suggested(params)) return;
        name.value = suggested({ ...params, q: shortName(found.name) });
        name.select();
      },
      () => {},
    );
  }

  function fill() {
    list.replaceChildren(
      ...savedSearches(info).map((one) =>
        el(
          "li",
          {},
          el("a", { href: one.address, on: { click: () => dialog.close() } }, one.name),
          button("", {
            kind: "icon-button",
            symbol: "close",
            title: "Delete",
            "aria-label": `Delete ${one.name}`,
            on() {
              keep(info, savedSearches(info).filter(({ name: other }) => other !== one.name));
              fill();
              name.focus();
            },
          }),
        ),
      ),
    );
    list.hidden = !list.children.length;
  }

  async function save(event) {
    event.preventDefault();
    const own = name.value.trim();
    if (!own) return;
    try {
      const others = savedSearches(info).filter((one) => one.name !== own);
      if (keep(info, [{ name: own, address: await lasting(params) }, ...others])) {
        told.textContent = `Saved as “${own}” in this browser.`;
      }
      fill();
    } catch (error) {
      told.textContent = error.message;
    }
  }

  async function copyLink() {
    try {
      const [page] = location.href.split("#");
      const done = await copy(page + (await lasting(params)));
      told.textContent = done ? "Link copied." : "The browser does not allow copying.";
    } catch (error) {
      told.textContent = error.message;
    }
  }

  fill();
  const dialog = openDialog(
    "small.saving",
    "Saved searches",
    el(
      "p.soft",
      {},
      lost
        ? UPLOADED
        : "A link contains the query, the filters and the sort order. Saved searches stay in this browser.",
    ),
    !lost &&
      el(
        "form",
        { on: { submit: save } },
        el("label.field", {}, el("span", {}, "Name"), name),
        el(
          "div.row",
          {},
          button("Save", { kind: "primary", type: "submit" }),
          button("Copy link", { on: copyLink }),
        ),
      ),
    told,
    list,
    closeRow(),
  );
  if (lost) dialog.focus();
  else name.select();
}

/** A name for a search, from what is in it. */
function suggested({ text, q, folder, tag, from, to, name }) {
  const times = [from && `from ${from}`, to && `until ${to}`];
  const parts = [text, q && `like ${q}`, name, folder, tag, ...times];
  return parts.filter(Boolean).join(", ").slice(0, 80);
}
