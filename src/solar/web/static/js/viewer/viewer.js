// The viewer: one photo over the view it was opened from, large, with all that is known of it.

import { verdictLine } from "../card.js";
import { button, el, linkButton, set } from "../dom.js";
import { help } from "../keys.js";
import { openMenu } from "../menu.js";
import { problem, say } from "../notice.js";
import { photo } from "../photos.js";
import * as route from "../route.js";
import { looks } from "../ways.js";
import { shortName } from "../words.js";
import { photoAddress, searchWith } from "./address.js";
import { photoFacts, savedName } from "./facts.js";
import { neighbourStrip } from "./neighbours.js";
import { cardOrder } from "./order.js";
import { photoStage } from "./stage.js";

/**
 * @param {HTMLElement} main Where the views are.
 * @param {object} shared What views share.
 */
export function photoViewer(main, shared) {
  let at = null; // what is shown: { photo, near, base, below }; null while closed
  let ids = null; // the order that the view gives, where it has one of its own
  let view = {};
  let opener = null;
  let leaving = false;
  const order = cardOrder(main);
  const notices = ["toasts", "spoken"].map((id) => document.getElementById(id));

  const stage = photoStage({ swipe: step, changed });
  const near = neighbourStrip();
  const title = el("h1.viewer-title");
  const percent = button("100 %", { title: "Original pixels (1)", on: () => stage.actual() });
  const whole = tool("fit", "Whole photo", "0", () => stage.fit());
  const before = tool("back", "Previous photo", "←", () => step(-1), "viewer-before");
  const after = tool("forward", "Next photo", "→", () => step(1), "viewer-after");
  const trouble = el("div.viewer-trouble");
  const actions = el("div.row.viewer-actions");
  const verdict = el("div");
  const facts = el("div");
  const files = el("div.row.viewer-files");
  const dialog = el(
    "dialog.viewer",
    { "aria-label": "Photo", tabindex: "-1" },
    el(
      "header.viewer-bar",
      {},
      title,
      el(
        "div.viewer-zoom",
        { role: "group", "aria-label": "Zoom" },
        tool("less", "Zoom out", "-", () => stage.farther()),
        percent,
        tool("add", "Zoom in", "+", () => stage.closer()),
        whole,
      ),
      tool("info", "Show or hide the photo details", "i", toggleSide, "viewer-info"),
      tool("close", "Close", "Esc", leave),
    ),
    el("div.viewer-main", {}, stage.element, before, after, trouble),
    el("aside.viewer-side", { "aria-label": "About the photo" }, verdict, actions, facts, files),
    near.element,
  );

  function tool(symbol, text, key, on, kind = "viewer-tool") {
    const given = { "aria-label": text, title: `${text} (${key})`, on };
    return button("", { symbol, kind: `icon-button.${kind}`, ...given });
  }

  function changed({ scale, percent: now }) {
    percent.querySelector("span").textContent = `${now} %`;
    percent.setAttribute("aria-label", `${now} %: show original pixels`);
    set(whole, "aria-disabled", scale === 1 ? "true" : null);
  }

  function toggleSide() {
    dialog.classList.toggle("bare");
  }

  // Which photo

  function neighbour(by) {
    if (!ids) return order.step(at.photo, by);
    const here = ids.indexOf(at.photo);
    return here < 0 ? null : (ids[here + by] ?? null);
  }

  // Not disabled, which would take the focus away, and the keys with it.
  function showSteps() {
    if (!at) return;
    set(before, "aria-disabled", neighbour(-1) ? null : "true");
    set(after, "aria-disabled", neighbour(1) ? null : "true");
  }
  new MutationObserver(showSteps).observe(main, { childList: true, subtree: true });

  function step(by) {
    const next = neighbour(by);
    if (next) route.go(photoAddress(next), { replace: true });
  }

  function leave() {
    if (!at || leaving) return;
    leaving = true;
    // One step back, unless the address came from elsewhere: then there is nothing to go back to.
    if (route.liesOver()) history.back();
    else route.go(at.base, { replace: true });
  }

  async function load() {
    const { photo: wanted, below } = at;
    const small = order.card(wanted)?.querySelector("img")?.getAttribute("src");
    title.textContent = "";
    stage.show(null);
    for (const part of [verdict, actions, facts, files, trouble]) part.replaceChildren();
    near.show(wanted, below.params.model);
    // Whoever was at something that has just gone keeps the keys.
    if (!dialog.contains(document.activeElement)) dialog.focus();
    try {
      const found = await photo(wanted);
      if (at?.photo === wanted) show(found, small);
    } catch (error) {
      if (at?.photo === wanted) trouble.replaceChildren(problem(error, load));
    }
  }

  function show(found, small) {
    title.textContent = shortName(found.name);
    title.title = found.name;
    document.title = `${shortName(found.name)} · ${shared.info.name} · solar`;
    stage.show({ ...found, width: found.width || 4, height: found.height || 3 }, small);
    const hit = at.near ? null : view.hit?.(found.id);
    verdict.replaceChildren(...(hit?.verdict ? [verdictLine(hit)] : []));
    actions.replaceChildren(...links(found, hit));
    facts.replaceChildren(photoFacts(found));
    files.replaceChildren(...fileLinks(found));
    say(found.name);
    prepare(neighbour(1));
  }

  /** Has the browser get a photo before somebody goes there. */
  function prepare(id) {
    if (id) photo(id).then((found) => (new Image().src = found.photo)).catch(() => {});
  }

  function links(found, hit) {
    const { id } = found;
    const { near: beside, below } = at;
    const { q, box, model } = below.params;
    const query = beside ?? q;
    const seen = { q: query === id ? null : query, box: beside ? null : box, model };
    const more = button("More", {
      "aria-haspopup": "menu",
      on: () => openMenu(more, others(hit ?? found)),
    });
    return [
      link("search", "Search with this", searchWith(id, below), "q", "primary"),
      ...looks(shared.info, id, seen).map(({ symbol, text, href, key }) =>
        link(symbol, text, href, key),
      ),
      others(hit ?? found).length > 0 && more,
    ].filter(Boolean);
  }

  /** What else the view can do with the photo: nothing that the page of the photo has itself. */
  const others = (photo) =>
    (view.actions?.(photo) ?? []).filter((one) => one && !one.href && one.text !== "Select");

  function link(symbol, text, href, key, kind = "", told = text) {
    const made = linkButton(text, href, symbol);
    if (kind) made.classList.add(kind);
    made.dataset.key = key;
    made.title = `${told} (${key})`;
    return made;
  }

  function fileLinks(found) {
    const told = found.original_is_file
      ? "The file itself"
      : "At full size, without the metadata of the file";
    const open = link("photo", "Original", found.original, "o", "", told);
    set(open, "target", "_blank");
    const save = link("save", "Download", found.original, "d", "", told);
    set(save, "download", savedName(found));
    return [open, save];
  }

  // Keys

  const keys = {
    Escape: leave,
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    "+": () => stage.closer(),
    "=": () => stage.closer(),
    "-": () => stage.farther(),
    0: () => stage.fit(),
    1: () => stage.actual(),
    i: toggleSide,
    "?": help,
  };
  const pans = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  dialog.addEventListener("keydown", (event) => {
    if (event.target.closest(".menu")) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const way = event.shiftKey && pans[event.key];
    const act = way ? () => stage.look(...way) : (keys[event.key] ?? linked(event.key));
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  });

  function linked(key) {
    const found = dialog.querySelector(`[data-key="${CSS.escape(key)}"]`);
    return found && (() => found.click());
  }

  // Android's Back and the like; and whatever else may close a dialog.
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault();
    leave();
  });
  dialog.addEventListener("close", () => dialog.open || leave());

  return {
    /**
     * Shows the photo of a place over its view, or nothing.
     * @param {object} below The view: `order` gives ids of all photos in its own order, else its cards.
     */
    show(place, below) {
      if (!place.photo) {
        close();
        return;
      }
      view = below;
      ids = view.order?.() ?? null;
      const open = !at;
      const other = at?.photo !== place.photo || at.near !== place.near;
      at = place;
      leaving = false;
      if (open) {
        opener = document.activeElement;
        order.begin(opener);
        document.body.append(dialog);
        dialog.append(...notices); // what is outside of an open dialog is neither seen nor heard
        dialog.showModal();
        dialog.focus(); // none of the buttons is what one came for
      }
      if (open || other) {
        order.reach(place.photo);
        load();
      }
      showSteps();
    },
  };

  function close() {
    if (!at) return;
    const shown = at.photo;
    at = null;
    leaving = false;
    near.stop();
    dialog.close();
    document.body.append(...notices);
    dialog.remove();
    const own = order.card(shown)?.querySelector("a") ?? (opener?.isConnected ? opener : null);
    if (own) own.focus();
    else main.focus({ preventScroll: true });
  }
}
