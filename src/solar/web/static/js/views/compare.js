// Compare: two settings on the same query, side by side.

import { isAbort } from "../api.js";
import * as boxes from "../boxes.js";
import { card, thumbnail } from "../card.js";
import { button, el, linkButton, refill, viewHead } from "../dom.js";
import { createGrid } from "../grid.js";
import { nothing, problem, say } from "../notice.js";
import { searchOptions, searchRequest } from "../options.js";
import { photo } from "../photos.js";
import { picker } from "../picker.js";
import * as route from "../route.js";
import { searchFor } from "../searches.js";
import { stageLine } from "../stages.js";
import { looks } from "../ways.js";
import { shortName } from "../words.js";
import { remade } from "./remade.js";

const SIDES = ["a", "b"];
const TOP = 10;

/** The settings of one side, from parameters like `b.rerank`. */
const settingsOf = (side, params) =>
  Object.fromEntries(
    ["model", "rerank"]
      .map((name) => [name, params[`${side}.${name}`]])
      .filter(([, value]) => value),
  );

/** The same values under other names. */
const renamed = (params, rename) =>
  Object.fromEntries(Object.entries(params).map(([name, value]) => [rename(name), value]));

const to = (params) => route.address("compare", [], params);

/** Where one begins: plain search against what the server can do best. */
function beginning(info) {
  if (info.models.length > 1) return { "b.model": info.models[1].name };
  const methods = info.features.rerank;
  return { "b.rerank": (methods.find((one) => one.needs === "photos") ?? methods[0]).name };
}

/** Makes the view in `root`. */
export function compare(root, shared) {
  const choose = () =>
    picker(root, {
      title: "Compare two settings",
      text: "Choose a photo, and see what two models or settings find for it, side by side.",
      open: (id) => to({ q: id }),
      take: shared.receive,
    });
  const make = ({ params }) => {
    shared.query = params.q ?? shared.query;
    return params.q ? comparing(root, shared, params) : choose();
  };
  const takePhoto = (taken) => route.go(to({ q: taken.id }));
  return remade(root, "Compare", ({ params }) => params.q, make, { takePhoto });
}

function comparing(root, shared, first) {
  const query = first.q;
  let params = first;
  const columns = Object.fromEntries(SIDES.map((side) => [side, column(side)]));
  const picture = el("div.compare-query");
  root.append(
    el(
      "div.compare",
      {},
      viewHead(
        picture,
        "Compare",
        button("Swap", { symbol: "swap", on: swap }),
        linkButton("Search", route.address("search", [], { q: query }), "search"),
        linkButton("Clear", "#/compare", "close"),
      ),
      el("div.columns", {}, ...SIDES.map((side) => columns[side].element)),
    ),
  );
  photo(query).then(
    (found) =>
      picture.append(
        thumbnail(found),
        el("span.query-name", { title: found.name }, shortName(found.name)),
      ),
    () => {},
  );

  function column(side) {
    const options = el("div.options");
    const verdict = el("p.verdict", { role: "status" });
    const line = el("div.stage-line");
    const state = el("div");
    const grid = createGrid(`Results ${side.toUpperCase()}`, (hit) =>
      card(hit, { actions: () => actions(side, hit), beside: beside(side, hit), truth: true }),
    );
    const element = el(
      "section.column",
      { "aria-label": `Setting ${side.toUpperCase()}` },
      el("div.column-head", {}, el("h2", {}, side.toUpperCase()), verdict),
      options,
      line,
      grid.element,
      state,
    );
    for (const kind of ["pointerover", "focusin"]) {
      const over = ({ target }) => point(target.closest(".card")?.dataset.id);
      grid.element.addEventListener(kind, over);
    }
    grid.element.addEventListener("pointerleave", () => point(null));
    return { element, options, verdict, line, state, grid };
  }

  /** Marks the same photo on both sides. */
  function point(id) {
    for (const one of root.querySelectorAll(".card"))
      one.classList.toggle("same", one.dataset.id === id);
  }

  const actions = (side, hit) => [
    { text: "Search", href: route.address("search", [], { q: hit.id }) },
    ...looks(shared.info, hit.id, { ...params, model: params[`${side}.model`] }),
  ];

  /** Where the other side has a photo. */
  function beside(side, hit) {
    const other = columns[side === "a" ? "b" : "a"].search;
    if (!other?.complete) return null;
    const name = side === "a" ? "B" : "A";
    const there = other.hits.find((one) => one.id === hit.id);
    return there ? `${name} ${there.rank}` : `not in ${name}`;
  }

  function swap() {
    const other = (name) => name.replace(/^[ab]\./, (start) => (start === "a." ? "b." : "a."));
    route.go(to(renamed(params, other)), { replace: true });
  }

  function change(side, patch) {
    const named = renamed(patch, (name) => `${side}.${name}`);
    route.go(to({ ...params, set: "1", ...named }), { replace: true });
  }

  async function find(side) {
    const part = columns[side];
    const settings = settingsOf(side, params);
    const wanted = JSON.stringify(settings);
    if (wanted === part.shown) return;
    part.shown = wanted;
    refill(part.options, searchOptions(shared.info, settings, (patch) => change(side, patch)));
    part.running?.abort();
    const mine = (part.running = new AbortController());
    part.search = searchFor({
      ...searchRequest({ q: query, ...settings }),
      box: boxes.read(params.box) ?? undefined,
    });
    part.state.replaceChildren();
    try {
      if (!part.search.complete) {
        showLine(part);
        await part.search.run(() => mine === part.running && render(side), mine.signal);
      } else {
        render(side);
      }
    } catch (error) {
      if (isAbort(error) || mine !== part.running) return;
      part.grid.set([]);
      part.line.replaceChildren();
      part.shown = null;
      part.state.replaceChildren(problem(error, () => find(side)));
    }
  }

  function showLine(part) {
    part.line.replaceChildren(stageLine(part.search.answers, part.search.awaited));
  }

  function render(side) {
    const part = columns[side];
    showLine(part);
    // The notes of one side tell of the other: both change when either does.
    for (const one of SIDES)
      if (columns[one].search?.hits.length)
        columns[one].grid.set(columns[one].search.hits, { glide: one === side });
    if (!part.search.complete) return;
    part.verdict.replaceChildren(...verdict(part.search.hits));
    if (!part.search.hits.length) part.state.replaceChildren(nothing("Nothing was found."));
    if (SIDES.every((one) => columns[one].search?.complete)) say("Both sides have finished.");
  }

  return {
    show(next) {
      const chosen = next.set || SIDES.some((side) => Object.keys(settingsOf(side, next)).length);
      params = chosen ? next : { ...next, ...beginning(shared.info) };
      SIDES.forEach(find);
    },
    leave() {
      for (const side of SIDES) columns[side].running?.abort();
    },
  };
}

/** How many of the best are right, where somebody knows. */
function verdict(hits) {
  const judged = hits.slice(0, TOP).filter((hit) => hit.same_label != null);
  if (!judged.length) return [];
  const right = judged.filter((hit) => hit.same_label).length;
  return [
    el("b.right", {}, `✓ ${right}`),
    el("span.long", {}, " correct, "),
    " ",
    el("b.wrong", {}, `✗ ${judged.length - right}`),
    el("span.long", {}, ` wrong in the top ${TOP}`),
  ];
}
