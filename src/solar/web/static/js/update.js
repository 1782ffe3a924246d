// Update: the collection learns what has changed in its folders.

import { follow, post } from "./api.js";
import { button, el } from "./dom.js";
import { say } from "./notice.js";
import { count, counted } from "./words.js";

const WORDS = ["new", "changed", "moved", "deleted"];

/**
 * A button that brings the collection up to date.
 * @param {function()} updated Called at the end.
 */
export function updater(updated) {
  const start = button("Update", { on: run });
  const bar = el("progress", { max: "1", hidden: true, "aria-label": "Progress of the update" });
  const said = el("p.facts", { role: "status" });
  let left = false;

  function show(job) {
    if (job.total) bar.value = job.done / job.total;
    said.textContent = job.total
      ? `${count(job.done)} of ${counted(job.total, "photo")} described.`
      : "Looking for changes…";
  }

  async function run() {
    if (start.getAttribute("aria-disabled")) return;
    // Not disabled, which would take the focus from those who use the keyboard.
    start.setAttribute("aria-disabled", "true");
    bar.hidden = false;
    bar.removeAttribute("value");
    said.removeAttribute("data-kind");
    said.textContent = "Looking for changes…";
    try {
      const { job } = await post("/sync", {});
      const { changes, error } = await follow(job, show, () => !left);
      if (left) return;
      if (error) throw new Error(error);
      said.textContent = told(changes);
    } catch (error) {
      said.dataset.kind = "bad";
      said.textContent = error.message;
    } finally {
      start.removeAttribute("aria-disabled");
      bar.hidden = true;
    }
    say(said.textContent);
    await updated();
  }

  return {
    element: el(
      "section.update",
      { "aria-label": "Update the collection" },
      start,
      el("p.soft", {}, "Looks for new, changed, moved and deleted photos in the folders."),
      bar,
      said,
    ),
    stop: () => (left = true),
  };
}

function told(changes) {
  const parts = WORDS.filter((word) => changes[word]).map(
    (word) => `${count(changes[word])} ${word}`,
  );
  const skipped = changes.skipped && ` ${counted(changes.skipped, "file")} skipped.`;
  return `${parts.length ? `${parts.join(", ")}.` : "Nothing has changed."}${skipped || ""}`;
}
