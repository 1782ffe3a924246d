// The fields to filter by what the index knows of photos, as far as it knows anything.

import { el } from "../dom.js";
import { chooser, field } from "../options.js";
import { count } from "../words.js";
import { MARK } from "./address.js";
import { facets } from "./facets.js";

let serial = 0;

/**
 * @param {function(object)} change Called with the parameters of the address that changed.
 * @returns An element, which is filled once the server has told what there is, and `show(params)`.
 */
export function filterFields(change) {
  const element = el("div.filter-fields.known-fields");
  const advanced = el("div");
  const number = ++serial;
  let params = {};
  let there = null;
  let parts = {};

  const typed = (name) => (value) => change({ [name]: value });
  const day = (text, name) =>
    field(text, { type: "date", value: params[name] ?? "" }, typed(name), complete);

  /** A field that suggests what there is, and asks for more as somebody types. */
  function suggesting(text, name, kind) {
    const list = el("datalist", { id: `${kind}-${number}` });
    const fill = (found) =>
      list.replaceChildren(
        ...found[kind].map(({ name: value, photos }) => el("option", { value }, count(photos))),
      );
    const names = () => [...list.children].map((option) => option.value);
    const part = field(
      text,
      { type: "search", list: list.id, value: params[name] ?? "", placeholder: "any" },
      (value) => change({ [name]: kind === "folders" ? withSlash(value, names()) : value }),
      (value) => !value || names().includes(value),
    );
    part.append(list);
    fill(there);
    if (there[`${kind}_total`] > there[kind].length) {
      part.addEventListener("input", async (event) => {
        const value = event.target.value.trim();
        const found = await facets(value).catch(() => null);
        if (found && event.target.value.trim() === value) fill(found);
      });
    }
    return part;
  }

  function make() {
    const roots = there.roots.map((root) => [`${root.name}${MARK}`, root.shown]);
    parts = {
      folder: (there.folders_total > 1 || params.folder) && suggesting("Folder", "folder", "folders"),
      tag: (there.tags_total > 0 || params.tag) && suggesting("Tag", "tag", "tags"),
      root:
        (roots.length > 1 || params.root) &&
        chooser("Root", [["", "any"], ...roots], params.root ?? "", typed("root")),
      from: (there.with_time > 0 || params.from) && day("Taken from", "from"),
      to: (there.with_time > 0 || params.to) && day("Taken until", "to"),
    };
    const where = field(
      "Condition",
      { type: "text", value: params.where ?? "", placeholder: "width>=1024", enterkeyhint: "done" },
      typed("where"),
      () => false, // half a condition is none
    );
    if (there.fields.length) where.append(el("small", {}, `own fields: ${there.fields.join(", ")}`));
    advanced.replaceChildren(where);
    if (there.taken) {
      const [first, last] = there.taken.map((time) => time.slice(0, 10));
      parts.from.append(el("small", {}, `first ${first}`));
      parts.to.append(el("small", {}, `last ${last}`));
    }
    element.replaceChildren(...Object.values(parts).filter(Boolean));
    parts.where = where;
  }

  facets().then(
    (found) => {
      there = found;
      make();
    },
    () => {}, // the search itself says what is wrong
  );

  return {
    element,
    advanced,
    show(next) {
      params = next;
      follow(parts, params);
    },
    focus() {
      element.querySelector("input, select")?.focus();
    },
  };
}

/** Sets fields, by the names of their parameters, as an address says, but for the one in use. */
export function follow(fields, params) {
  for (const [name, part] of Object.entries(fields)) {
    const input = part && part.querySelector("input, select");
    if (input && input !== document.activeElement) input.value = params[name] ?? "";
  }
}

/** Whether a day is typed to its end: browsers tell of the year 2 while 2019 is being typed. */
const complete = (text) => !text || text >= "1800";

/** A folder without its slash would also be the start of others' names. */
const withSlash = (value, names) => (names.includes(`${value}/`) ? `${value}/` : value);
