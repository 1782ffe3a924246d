// Add: photos become part of the collection.

import { follow, isAbort, sendForm } from "../api.js";
import { card } from "../card.js";
import { relearn } from "../collection.js";
import { button, el, icon } from "../dom.js";
import { createGrid } from "../grid.js";
import { nothing, notify, say } from "../notice.js";
import { photo } from "../photos.js";
import { updater } from "../update.js";
import { filePicker } from "../upload.js";
import { ways } from "../ways.js";
import { bytes, count, counted } from "../words.js";

const PIECE = 12;

/** Makes the view in `root`. */
export function add(root, shared) {
  const { info } = shared;
  if (!info.settings.writable) {
    root.append(nothing("No photos can be added here: the server was started without --writable."));
    return { title: "Add photos", show() {} };
  }
  const bar = el("progress", { max: "1", value: "0", "aria-label": "Progress" });
  const said = el("p.facts", { role: "status" });
  const failures = el("ul.failures", { "aria-label": "Not added" });
  const grid = createGrid("Added photos", (one) => card(one, { actions: () => ways(info, one.id) }));
  let control = new AbortController();
  const cancel = button("Cancel", { on: () => control.abort(), hidden: true });
  const progress = el(
    "section.adding",
    { hidden: true },
    bar,
    el("div.row", {}, said, cancel),
    failures,
  );
  const update = info.settings.writable && updater(() => relearn(info));
  root.append(
    el(
      "div.add",
      {},
      el(
        "section.dropzone",
        {},
        icon("add"),
        el("h1", {}, "Add photos"),
        el(
          "p.soft",
          {},
          `They become part of “${info.name}”, for everyone who uses it. At most ${bytes(info.settings.max_upload_bytes)} each.`,
        ),
        filePicker("Choose photos", { multiple: true }, take),
        el("p.hint", {}, "or drop them anywhere, or paste one"),
      ),
      update && update.element,
      progress,
      grid.element,
    ),
  );
  let left = false;
  const sum = { total: 0, done: 0, sent: 0, added: 0, known: 0, failed: 0, cancelled: 0 };
  let turn = Promise.resolve();

  function fail(name, error) {
    sum.failed += 1;
    failures.append(el("li", {}, el("b", {}, name), " ", error));
  }

  function show() {
    progress.hidden = false;
    // A photo is half done when it is sent.
    bar.value = sum.total ? (sum.done + sum.sent / 2) / sum.total : 0;
    cancel.hidden = sum.done >= sum.total;
    const parts = [
      sum.done < sum.total
        ? `${count(sum.done)} of ${counted(sum.total, "photo")}`
        : `${counted(sum.added - sum.known, "photo")} added`,
      sum.known && `${count(sum.known)} already in the collection`,
      sum.cancelled && `${count(sum.cancelled)} cancelled`,
      sum.failed && `${count(sum.failed)} failed`,
    ];
    said.textContent = `${parts.filter(Boolean).join(", ")}.`;
  }

  function take(files) {
    sum.total += files.length;
    const most = info.settings.max_upload_bytes;
    const fitting = files.filter((file) => file.size <= most);
    for (const file of files.filter((one) => one.size > most)) {
      fail(file.name, `It has ${bytes(file.size)}, but the limit is ${bytes(most)}.`);
      sum.done += 1;
    }
    show();
    for (let at = 0; at < fitting.length; at += PIECE) {
      turn = turn.then(() => piece(fitting.slice(at, at + PIECE)));
    }
    turn = turn.then(finish);
  }

  /** Sends some photos and follows them until they are indexed. */
  async function piece(files) {
    const before = sum.done;
    try {
      const form = new FormData();
      for (const file of files) form.append("photos", file, file.name || "pasted.png");
      const { job } = await sendForm("/photos", form, {
        signal: control.signal,
        sent(share) {
          sum.sent = share * files.length;
          show();
        },
      });
      sum.sent = 0;
      let seen = { failed: [], added: [], known: [] };
      const told = async (now) => {
        for (const { name, error } of now.failed.slice(seen.failed.length)) fail(name, error);
        const fresh = now.added.slice(seen.added.length);
        sum.added += fresh.length;
        sum.known += now.known.length - seen.known.length;
        sum.done = before + now.done;
        seen = now;
        show();
        grid.append(await Promise.all(fresh.map(photo)));
      };
      await follow(job, told, () => !left);
    } catch (error) {
      // What was sent before is added; nothing else is.
      if (isAbort(error)) sum.cancelled += files.length;
      else for (const file of files) fail(file.name, error.message);
      sum.sent = 0;
      sum.done = before + files.length;
      show();
    }
  }

  async function finish() {
    if (sum.done < sum.total) return;
    control = new AbortController();
    say(said.textContent);
    if (sum.added > sum.known) notify(`${counted(sum.added - sum.known, "photo")} added.`);
    else if (sum.known) notify(`${sum.known === 1 ? "This photo is" : "These photos are"} already in the collection.`);
    await relearn(info);
  }

  function leave() {
    left = true;
    control.abort();
    update?.stop?.();
  }

  return { title: "Add photos", show() {}, takeFiles: take, leave };
}
