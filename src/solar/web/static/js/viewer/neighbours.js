// A strip of the photos that are most similar to the one that is shown.

import { isAbort, post } from "../api.js";
import { thumbnail } from "../card.js";
import { el } from "../dom.js";
import { VERDICTS } from "../words.js";
import { opening } from "./address.js";

const MANY = 16;
// Who leafs through photos does not want to know the neighbours of each.
const PAUSE = 250;
const FRAMED = "Framed: probably the same place.";

export function neighbourStrip() {
  const list = el("ul.viewer-strip", { "aria-label": "Nearest photos" });
  const note = el("p.facts", { role: "status" });
  const element = el(
    "section.viewer-near",
    { "aria-label": "Nearest photos" },
    el("h2", {}, "Nearest photos"),
    note,
    list,
  );
  let control = null;
  let timer = 0;
  let shown = null;

  async function ask(id, model) {
    control = new AbortController();
    try {
      const request = { photo: id, k: MANY, rerank: [], model };
      const { hits } = await post("/search", request, { signal: control.signal });
      if (shown !== id) return;
      const some = hits.some(({ verdict }) => verdict !== "similar");
      note.textContent = hits.length ? (some ? FRAMED : "") : "There are no other photos.";
      list.replaceChildren(...hits.map((hit) => item(hit, id)));
    } catch (error) {
      if (!isAbort(error) && shown === id) note.textContent = error.message;
    }
  }

  function item(hit, near) {
    const words = VERDICTS[hit.verdict];
    const given = {
      ...opening(hit.id, near),
      title: hit.name,
      "aria-label": [hit.name, words].filter(Boolean).join(", "),
      "data-verdict": hit.verdict,
      "data-id": hit.id,
    };
    return el("li", {}, el("a", given, thumbnail(hit)));
  }

  function stop() {
    clearTimeout(timer);
    control?.abort();
    shown = null;
  }

  return {
    element,
    stop,
    /** Finds the neighbours of a photo, by the model of the search that it was found by. */
    show(id, model) {
      if (id === shown) return;
      stop();
      shown = id;
      list.replaceChildren();
      list.scrollLeft = 0;
      note.textContent = "Searching…";
      timer = setTimeout(() => ask(id, model || undefined), PAUSE);
    },
  };
}
