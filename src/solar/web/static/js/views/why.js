// Why: two photos and the regions that make them similar; a region shows what it matches.

import { isAbort, post } from "../api.js";
import { read } from "../boxes.js";
import { AGAINST, FOR } from "../colours.js";
import { button, cover, el, linkButton, placeOn, set, style, viewHead } from "../dom.js";
import { brightest, density, drawEvidence } from "../heat.js";
import { heatStage } from "../heat_stage.js";
import { line, lineSheet } from "../lines.js";
import { notify, problem } from "../notice.js";
import { opacitySlider, toggle } from "../options.js";
import { photo } from "../photos.js";
import * as route from "../route.js";
import { confirmed, shortName } from "../words.js";
import { remade } from "./remade.js";

const SIDES = ["a", "b"];
const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const POINT = "Point at a region to see what it matches in the other photo; click to pin it.";
const TAP = "Tap a region to see what it matches in the other photo.";
// A pointer that moves asks less often than servers allow, and not again for what it has seen.
const PACE = 60;
const MOST_KEPT = 500;
// Answers weaker than this part of the strongest pair are not made to look strong.
const FAINT = 0.1;

/** Makes the view in `root`. */
export function why(root) {
  const about = ({ parts: [a, b], params: { box, model } }) => ({ a, b, box, model });
  return remade(root, "What looks alike", about, (place) => explaining(root, about(place)));
}

const other = (side) => (side === "a" ? "b" : "a");
const same = (one, two) =>
  one?.side === two?.side && one?.row === two?.row && one?.column === two?.column;
const percent = (part) => (part < 0.001 ? "less than 0.1 %" : `${(100 * part).toFixed(1)} %`);

function explaining(root, { a, b, box: written, model }) {
  const control = new AbortController();
  const { signal } = control;
  const box = read(written) ?? undefined;
  const asked = { a, b, box, model: model || undefined };
  let found = null; // the explanation
  let chosen = null; // the region that is asked about: side, row, column
  let pinned = false; // whether it stays when the pointer goes on
  let asking = false;
  const maps = {}; // what a pixel of each photo adds, by regions
  let lines = []; // between the strongest pairs: a group and its ends
  const answers = new Map();
  const keyOf = ({ side, row, column }) => [side, row, column].join();

  const score = el("strong.why-score", {}, "…");
  const text = el("p.facts.why-text", { role: "status" }, "Comparing the regions of both photos…");
  const scene = el("span.why-scene.verdict-words");
  const stages = { a: stage("a", "The query"), b: stage("b", "The result") };
  const pair = el(
    "div.pair.why-pair",
    { "aria-busy": "true" },
    ...SIDES.map((side) => stages[side].figure),
  );
  const sheet = lineSheet(pair, SIDES.map((side) => stages[side].element));
  pair.append(sheet.element);
  const trouble = el("div");
  const tools = controls();
  root.append(
    el(
      "div.why",
      {},
      viewHead(
        button("Back", { symbol: "back", on: route.back }),
        "What looks alike",
        el("span.why-similarity", {}, el("span.soft", {}, "similarity"), score),
        scene,
      ),
      text,
      pair,
      trouble,
      tools,
    ),
  );

  // Photos are there long before their explanation.
  Promise.all([photo(a), photo(b)]).then(
    (photos) => SIDES.forEach((side, at) => stages[side].show(photos[at])),
    (error) => {
      for (const part of [pair, text, tools]) part.remove();
      trouble.replaceChildren(problem(error));
    },
  );
  explain();

  async function explain() {
    trouble.replaceChildren();
    try {
      take(await post("/why", asked, { signal }));
      verify();
    } catch (error) {
      if (isAbort(error)) return;
      text.textContent = "";
      pair.removeAttribute("aria-busy");
      trouble.replaceChildren(problem(error, explain));
    }
  }

  /** Says beside the similarity whether points verify it; the page does without where they fail. */
  async function verify() {
    try {
      const told = await post("/matches", { a, b, box }, { signal });
      scene.dataset.verdict = told.same_scene ? "same" : "similar";
      scene.textContent = confirmed(told.same_scene);
    } catch {
      scene.replaceChildren();
    }
  }

  function take(told) {
    found = told;
    pair.removeAttribute("aria-busy");
    score.textContent = told.score.toFixed(3);
    for (const side of SIDES) maps[side] = density(told[side], told[side].heat);
    const strongest = told.pairs[0]?.value ?? 1;
    lines = told.pairs.map((one) => [
      style(line("#fff"), { "--weight": String(one.value / strongest) }),
      parts("a", one.a),
      parts("b", one.b),
    ]);
    const { rows, columns } = told.a;
    stages.a.frame(box && [columns[0], rows[0], columns.at(-1), rows.at(-1)]);
    paint();
  }

  const parts = (side, [x, y]) => [x / found[side].width, y / found[side].height];

  /** Draws both maps, the lines and the region that is asked about, and says what it adds. */
  function paint() {
    const most = brightest(maps.a, maps.b);
    for (const side of SIDES) {
      const asks = chosen?.side === side;
      stages[side].mark(asks ? edges(chosen) : null);
      if (!chosen || asks) stages[side].draw(maps[side], most);
    }
    const answer = chosen && answers.get(keyOf(chosen));
    if (answer) drawAnswer(answer);
    sheet.element.classList.toggle("quiet", Boolean(chosen));
    sheet.show([...lines, answer && bestLine(answer)].filter(Boolean));
    say();
  }

  function drawAnswer({ heat }) {
    const side = other(chosen.side);
    const { rows, columns, width, height } = found[side];
    const map = density(found[side], heat);
    const area = (width * height) / ((rows.length - 1) * (columns.length - 1));
    const least = (FAINT * (found.pairs[0]?.value ?? 0)) / area;
    stages[side].draw(map, Math.max(brightest(map), least));
  }

  /** A line from the region to what answers it most. */
  function bestLine({ heat }) {
    const side = other(chosen.side);
    const most = Math.max(...heat);
    if (most <= 0) return null;
    const ends = {
      [chosen.side]: parts(chosen.side, middle(edges(chosen))),
      [side]: parts(side, middle(edges(regionOf(side, heat.indexOf(most))))),
    };
    const group = style(line("#fff"), { "--weight": "1" });
    group.classList.add("own");
    return [group, ends.a, ends.b];
  }

  function say() {
    if (!chosen) {
      text.textContent = matchMedia("(hover: none)").matches ? TAP : POINT;
      return;
    }
    const { row, column, side } = chosen;
    const value = found[side].heat[row * (found[side].columns.length - 1) + column];
    const adds = value < 0 ? "makes the photos less similar; it subtracts" : "adds";
    const much = Math.abs(value);
    const share = found.score > 0.01 ? `, ${percent(much / found.score)} of the similarity` : "";
    const photo = side === "a" ? "query" : "result";
    text.textContent = `This region of the ${photo} ${adds} ${much.toFixed(4)}${share}.`;
  }

  /** Left, top, right and bottom of a region. */
  function edges({ side, row, column }) {
    const { rows, columns } = found[side];
    return [columns[column], rows[row], columns[column + 1], rows[row + 1]];
  }

  function regionOf(side, at) {
    const wide = found[side].columns.length - 1;
    return { side, row: Math.floor(at / wide), column: at % wide };
  }

  function point(at) {
    if (same(at, chosen)) return;
    chosen = at;
    paint();
    if (chosen) ask();
  }

  function clear() {
    pinned = false;
    point(null);
  }

  /** Asks what the region matches; while that is under way only the newest region counts. */
  async function ask() {
    if (asking) return;
    asking = true;
    while (chosen && !answers.has(keyOf(chosen))) {
      const key = keyOf(chosen);
      const [x, y] = middle(edges(chosen));
      try {
        const body = { ...asked, side: chosen.side, x, y };
        answers.set(key, await post("/why/answers", body, { signal }));
      } catch (error) {
        if (isAbort(error)) return;
        notify(error.message, "bad");
        clear();
        break;
      }
      if (answers.size > MOST_KEPT) answers.delete(answers.keys().next().value);
      if (chosen && keyOf(chosen) === key) paint();
      await new Promise((resolve) => setTimeout(resolve, PACE));
    }
    asking = false;
  }

  /** One of the photos, with its map and the region that is asked about. */
  function stage(side, text) {
    const region = el("div.region", { hidden: true });
    const frame = el("div.why-box", { hidden: true });
    let drawn = null;
    const name = el("figcaption.soft", {}, text);
    const { element, canvas, ...heat } = heatStage(
      "div.why-stage",
      `${text}. Arrow keys move between its regions, Escape deselects.`,
      frame,
      region,
    );

    /** The region that a pointer is over, or null beyond the box. */
    function under(event) {
      const { rows, columns } = found[side];
      const [x, y] = placeOn(element, event, found[side]);
      const row = rows.findLastIndex((edge) => edge <= y);
      const column = columns.findLastIndex((edge) => edge <= x);
      const within = (at, edges) => at >= 0 && at < edges.length - 1;
      return within(row, rows) && within(column, columns) ? { side, row, column } : null;
    }

    element.addEventListener("pointermove", (event) => {
      if (found && !pinned && event.pointerType === "mouse") point(under(event));
    });
    element.addEventListener("pointerleave", () => found && !pinned && point(null));
    element.addEventListener("click", (event) => {
      const at = found && under(event);
      if (!at || (pinned && same(at, chosen))) {
        clear();
        return;
      }
      pinned = true;
      point(at);
    });
    element.addEventListener("keydown", (event) => {
      const way = ARROWS[event.key];
      if (!way || !found || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      pinned = true;
      if (chosen?.side !== side) {
        const { heat } = found[side];
        point(regionOf(side, heat.indexOf(Math.max(...heat)))); // begin with what matters most
        return;
      }
      const { rows, columns } = found[side];
      const within = (at, edges) => Math.min(Math.max(at, 0), edges.length - 2);
      const row = within(chosen.row + way[0], rows);
      point({ side, row, column: within(chosen.column + way[1], columns) });
    });

    return {
      element,
      figure: el("figure", {}, element, name),
      show(known) {
        heat.show(known);
        name.replaceChildren(`${text}, `, el("b", { title: known.name }, shortName(known.name)));
      },
      draw(map, most) {
        if (map === drawn) return;
        drawn = map;
        drawEvidence(canvas, found[side], map, most);
      },
      frame(bounds) {
        set(frame, "hidden", !bounds);
        if (bounds) cover(frame, bounds, found[side]);
      },
      mark(bounds) {
        set(region, "hidden", !bounds);
        if (bounds) cover(region, bounds, found[side]);
      },
    };
  }

  function controls() {
    return el(
      "div.look-controls.why-controls",
      {},
      toggle("Lines", null, true, (on) => sheet.element.classList.toggle("none", !on)),
      opacitySlider((value) => style(pair, { "--opacity": value })),
      el("div.why-legend", {}, swatch(FOR, "more similar"), swatch(AGAINST, "less similar")),
      linkButton("Search with the result", route.address("search", [], { q: b }), "search"),
      linkButton("Matching details", route.address("match", [a, b], { box: written }), "match"),
    );
  }

  return {
    leave() {
      control.abort();
      sheet.leave();
    },
    keys: {
      get Escape() {
        return chosen ? clear : undefined;
      },
    },
  };
}

const middle = ([left, top, right, bottom]) => [(left + right) / 2, (top + bottom) / 2];

const swatch = (colour, text) =>
  el("span", {}, style(el("i.swatch"), { background: `rgb(${colour.join(" ")})` }), text);
