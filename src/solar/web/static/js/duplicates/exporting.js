// Decisions as files: JSON, or a plain list of the photos that were not kept.

import { openDialog } from "../dialog.js";
import { button, el } from "../dom.js";
import { save } from "../files.js";
import { notify } from "../notice.js";
import { chooser } from "../options.js";
import { count, counted } from "../words.js";
import { outcome, suggestion } from "./decisions.js";

const AT_ONCE = 200;
const FORMS = {
  JSON: { ending: "json", type: "application/json", write: asJson },
  "List of paths": { ending: "txt", type: "text/plain", write: asList },
};

/** Opens a dialog to export the decisions in `store` about the groups of `source`. */
export function exportDialog(source, store) {
  const { name, groups } = source.overview;
  const decided = groups.filter(([, id]) => store.decided(id)).length;
  let every = false;
  const told = el("p.soft", { role: "status" });
  const write = async (form) => {
    if (dialog.ariaBusy) return;
    dialog.ariaBusy = "true"; // disabled buttons would lose the focus
    try {
      const found = await gather(source, store, every, (done) => {
        told.textContent = `Reading groups: ${count(done)} of ${count(groups.length)}…`;
      });
      save(`${name}.duplicates.${form.ending}`, form.type, form.write(found, name));
      dialog.close();
    } catch (error) {
      told.textContent = error.message;
    }
    dialog.ariaBusy = null;
  };
  const buttons = Object.entries(FORMS).map(([text, form]) =>
    button(text, { on: () => write(form) }),
  );
  const dialog = openDialog(
    "small.dup-export",
    "Export the decisions",
    el(
      "p.soft",
      {},
      "Nothing is deleted or moved. The list contains the photos to remove, one per line.",
    ),
    chooser(
      "Groups",
      [
        ["", `Decided groups (${count(decided)})`],
        ["all", `All ${count(groups.length)} groups, undecided ones as suggested`],
      ],
      "",
      (value) => (every = value === "all"),
    ),
    el("div.row", {}, ...buttons),
    told,
    el("div.row.end", {}, button("Close", { on: () => dialog.close() })),
  );
  dialog.querySelector("select").focus();
}

/** The groups to export, each with its number, its decision and what becomes of its photos. */
async function gather(source, store, every, progress) {
  const { groups } = source.overview;
  const wanted = groups.map(([, id]) => every || store.decided(id));
  const found = [];
  for (let offset = 0; offset < groups.length; offset += AT_ONCE) {
    if (!wanted.slice(offset, offset + AT_ONCE).some(Boolean)) continue;
    progress(offset);
    const page = await source.page(offset, AT_ONCE);
    page.forEach((group, at) => {
      if (!wanted[offset + at]) return;
      const decided = store.decided(group.id);
      const decision = decided ? store.get(group.id) : suggestion(group);
      const becomes = outcome(group, decision);
      found.push({ number: offset + at + 1, group, decision, decided, becomes });
    });
  }
  return found;
}

/** Where a photo is, as far as the page knows: its path on this machine, or else its name. */
const place = (photo) => photo.path ?? photo.name;

function asJson(found, collection) {
  const groups = found.map(({ number, group, decision, decided, becomes }) => {
    const those = (wanted) =>
      group.photos.filter((_, at) => wanted.includes(becomes[at])).map((photo) => photo.name);
    return {
      group: number,
      kind: group.kind,
      decided,
      keep: those(["keep", "apart"]),
      remove: those(["remove"]),
      not_duplicates: decision.apart.map((at) => {
        const { a, b } = group.pairs[at];
        return [Math.min(a, b), Math.max(a, b)].map((own) => group.photos[own].name);
      }),
    };
  });
  return JSON.stringify({ format: "solar-duplicate-decisions-1", collection, groups }, null, 1);
}

function asList(found) {
  const paths = found.flatMap(({ group, becomes }) =>
    group.photos.filter((_, at) => becomes[at] === "remove").map(place),
  );
  const fine = paths.filter((path) => !/[\r\n]/.test(path));
  if (fine.length < paths.length) {
    const left = counted(paths.length - fine.length, "path");
    notify(`Skipped ${left} with a line break: export JSON for these.`, "bad");
  }
  return fine.map((path) => `${path}\n`).join("");
}
