// Takes photos out of the index, after two questions. No file is touched.

import { post } from "../api.js";
import { relearn } from "../collection.js";
import { button, el } from "../dom.js";
import { notify } from "../notice.js";
import { counted } from "../words.js";

const AT_ONCE = 1000;
const NAMED = 5;

/**
 * Asks twice, and removes.
 * @param {object[]} photos Those to remove.
 * @param {function(Set<string>)} removed Called with the ids of what is gone.
 */
export function removalDialog(photos, info, removed) {
  const many = counted(photos.length, "photo");
  const gone = new Set(); // also by an attempt that failed later
  const told = el("p.soft", { role: "status" });
  const names = photos.slice(0, NAMED).map((photo) => el("li", {}, photo.name));
  const more = photos.length - names.length;
  const heading = el("h2", { id: "removal-title" }, `Remove ${many} from the index?`);
  const body = el(
    "div.removal-text",
    {},
    el("ul", {}, ...names, more > 0 && el("li", {}, `and ${counted(more, "other")}`)),
    el(
      "p.soft",
      {},
      `Searches in “${info.name}” will no longer find them, for everyone who uses it. ` +
        "The files stay where they are: the next update of the collection adds them again.",
    ),
  );
  const cancel = button("Cancel", { on: () => dialog.close() });
  const go = button("Remove from the index", { kind: "danger", on: askAgain });
  const dialog = el(
    "dialog.small.removal",
    { "aria-labelledby": "removal-title" },
    heading,
    body,
    told,
    el("div.row.end", {}, cancel, go),
  );

  function askAgain() {
    heading.textContent = "Are you sure?";
    body.replaceChildren(
      el("p", {}, `${many} will be removed from the index. This cannot be undone on this page.`),
    );
    const yes = button(`Yes, remove ${many}`, { kind: "danger", on: () => remove(yes) });
    go.replaceWith(yes);
    // Whoever presses a key once too often does no harm.
    cancel.focus();
  }

  async function remove(yes) {
    const left = photos.map((photo) => photo.id).filter((id) => !gone.has(id));
    for (const one of [yes, cancel]) one.disabled = true;
    told.textContent = "Removing…";
    try {
      for (let at = 0; at < left.length; at += AT_ONCE) {
        const ids = left.slice(at, at + AT_ONCE);
        await post("/photos/remove", { photos: ids });
        for (const id of ids) gone.add(id);
      }
      dialog.close();
      notify(`${many} removed from the index.`);
    } catch (error) {
      told.textContent = error.message;
      for (const one of [yes, cancel]) one.disabled = false;
      cancel.focus();
    }
    if (!gone.size) return;
    await relearn(info).catch(() => {}); // how many there are is told by the next page
    removed(gone);
  }

  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  cancel.focus();
}
