// Takes photos out of the collection, after one question, and back again. No file is touched.

import { post } from "../api.js";
import { relearn } from "../collection.js";
import { openDialog } from "../dialog.js";
import { button, el } from "../dom.js";
import { notify, telling } from "../notice.js";
import { parse } from "../route.js";
import { counted } from "../words.js";

const AT_ONCE = 1000;
const NAMED = 5;

/** Puts photos back that were removed, by name. */
export async function putBack(names, info) {
  let back = 0;
  const failed = [];
  for (let at = 0; at < names.length; at += AT_ONCE) {
    const answer = await post("/photos/restore", { names: names.slice(at, at + AT_ONCE) });
    back += answer.restored;
    failed.push(...answer.failed);
  }
  if (back) notify(`${counted(back, "photo")} put back.`);
  for (const { name, error } of failed.slice(0, NAMED)) notify(`${name}: ${error}`, "bad");
  await relearn(info);
}

/**
 * Asks, and removes.
 * @param {object[]} photos Those to remove.
 * @param {function(Set<string>=)} changed Called with the ids of what is gone, and with nothing when
 *   it is back.
 */
export function removalDialog(photos, info, changed) {
  const many = counted(photos.length, "photo");
  const gone = new Map(); // names by id, also of an attempt that failed later
  const told = el("p.soft", { role: "status" });
  const names = photos.slice(0, NAMED).map((photo) => el("li", {}, photo.name));
  const more = photos.length - names.length;
  const undo = telling(async () => {
    await putBack([...gone.values()], info);
    changed();
  });
  const cancel = button("Cancel", { on: () => dialog.close() });
  const go = button(`Remove ${many}`, { kind: "danger", on: remove });
  const dialog = openDialog(
    "small.removal",
    `Remove ${many} from “${info.name}”?`,
    el(
      "div.removal-text",
      {},
      el("ul", {}, ...names, more > 0 && el("li", {}, `and ${counted(more, "other")}`)),
      el(
        "p.soft",
        {},
        "Removed photos stay hidden, also after an update. No file is deleted, and “Removed photos” under Advanced puts them back.",
      ),
    ),
    told,
    el("div.row.end", {}, cancel, go),
  );

  async function remove() {
    if (go.ariaDisabled) return;
    const left = photos.filter(({ id }) => !gone.has(id));
    go.ariaDisabled = "true"; // not disabled, which would take the focus away
    told.textContent = "Removing…";
    try {
      for (let at = 0; at < left.length; at += AT_ONCE) {
        const some = left.slice(at, at + AT_ONCE);
        await post("/photos/remove", { photos: some.map(({ id }) => id) });
        for (const { id, name } of some) gone.set(id, name);
      }
      dialog.close();
      notify(`${many} removed.`, "", { text: "Undo", on: undo });
    } catch (error) {
      told.textContent = error.message;
      go.ariaDisabled = null;
      cancel.focus();
    }
    if (!gone.size) return;
    // A photo that is open is gone, too.
    const viewer = document.querySelector("dialog.viewer");
    if (gone.has(parse(location.hash).params.photo)) viewer?.dispatchEvent(new Event("cancel"));
    await relearn(info).catch(() => {}); // how many there are is told by the next page
    changed(new Set(gone.keys()));
  }

  cancel.focus();
}
