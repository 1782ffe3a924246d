// Why: two photos and the regions that make them similar; a region shows what it matches.

import { isAbort, post } from "../api.js";
import { read } from "../boxes.js";
import { AGAINST, FOR } from "../colours.js";
import { button, el, linkButton, set, style } from "../dom.js";
import { brightest, density, drawEvidence } from "../heat.js";
import { layLines, line } from "../lines.js";
import { notify, problem } from "../notice.js";
import { toggle } from "../options.js";
import { photo } from "../photos.js";
import * as route from "../route.js";
import { confirmed, shortName } from "../words.js";

const SIDES = ["a", "b"];
const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const POINT = "Point at a region to see what it matches in the other photo; click to pin it.";
const TAP = "Tap a region to see what it matches in the other photo.";
// A pointer that moves asks less often than servers allow, and not again for what it has seen.
const PACE = 60;
const MOST_KEPT = 500;
// Answers weaker than this part of the strongest pair are not made to look strong.
const FAINT = 0.1;

/** Where it is told why two photos are similar, or null where the model cannot tell. */
export function whyAddress(info, a, b, { box, model }) {
  const used = info.models.find((one) => one.name === model) ?? info.models[0];
  return used.why ? route.address("why", [a, b], { box, model }) : null;
}

/** Makes the view in `root`. */
export function why(root, shared) {
  let content = null;
  return {
    title: "What looks alike",
    show({ parts: [a, b], params }) {
      const of = JSON.stringify([a, b, params.box, params.model]);
      const stays = content?.of === of;
      if (stays) {
        content.show(params);
      } else {
        content?.leave();
        root.replaceChildren();
        content = { of, ...explaining(root, shared, [a, b], params) };
      }
      return !stays;
    },
    leave: () => content?.leave(),
    get keys() {
      return content?.keys;
    },
  };
}

const other = (side) => (side === "a" ? "b" : "a");
const same = (one, two) =>
  one?.side === two?.side && one?.row === two?.row && one?.column === two?.column;
const percent = (part) => (part < 0.001 ? "less than 0.1 %" : `${(100 * part).toFixed(1)} %`);

function explaining(root, shared, [a, b], first) {
  const control = new AbortController();
  const { signal } = control;
  const box = read(first.box) ?? undefined;
  const model = first.model || undefined;
  const info = shared.info.models.find((one) => one.name === model) ?? shared.info.models[0];
  let params = first;
  let found = null; // the explanation that is shown
  let chosen = null; // the region that is asked about: side, row, column
  let pinned = false; // whether it stays when the pointer goes on
  let asking = false;
  const maps = {}; // what a pixel of each photo adds, by regions
  let lines = []; // between the strongest pairs: a group and its ends
  let best = null; // the same to what answers the region most
  const explanations = new Map(); // with and without attention, as promises
  const answers = new Map();

  const attention = () => !params.plain;
  const asked = () => ({ a, b, box, model, attention: attention() });
  const keyOf = ({ side, row, column }) => [attention(), side, row, column].join();

  const score = el("strong.why-score", {}, "…");
  const text = el("p.facts.why-text", { role: "status" }, "Comparing the regions of both photos…");
  const scene = el("span.why-scene.verdict-words");
  const stages = { a: stage("a", "The query"), b: stage("b", "The result") };
  const sheet = el("svg.lines", { "aria-hidden": "true" });
  const pair = el(
    "div.pair.why-pair",
    { "aria-busy": "true" },
    ...SIDES.map((side) => stages[side].figure),
    sheet,
  );
  const trouble = el("div");
  const tools = controls();
  root.append(
    el(
      "div.why",
      {},
      el(
        "div.view-head",
        {},
        button("Back", { symbol: "back", on: route.back }),
        el("h1.view-title", {}, "What looks alike"),
        el("span.why-similarity", {}, el("span.soft", {}, "similarity"), score),
        scene,
      ),
      text,
      pair,
      trouble,
      tools,
    ),
  );
  const watch = new ResizeObserver(place);
  watch.observe(pair);

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
    const wanted = attention();
    pair.setAttribute("aria-busy", "true");
    trouble.replaceChildren();
    try {
      if (!explanations.has(wanted)) explanations.set(wanted, post("/why", asked(), { signal }));
      const told = await explanations.get(wanted);
      if (wanted === attention()) take(told);
      if (!scene.textContent) verify();
    } catch (error) {
      explanations.delete(wanted);
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
    if (chosen) ask();
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
    best = answer ? bestLine(answer) : null;
    sheet.classList.toggle("quiet", Boolean(chosen));
    sheet.replaceChildren(...[...lines, best].filter(Boolean).map(([group]) => group));
    place();
    say();
  }

  function place() {
    const photos = SIDES.map((side) => stages[side].element);
    layLines(sheet, pair, photos, [...lines, best].filter(Boolean));
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
        const body = { ...asked(), side: chosen.side, x, y };
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
    const image = el("img", { alt: "", draggable: "false" });
    const canvas = el("canvas.heat", { "aria-hidden": "true" });
    const region = el("div.region", { hidden: true });
    const frame = el("div.why-box", { hidden: true });
    let drawn = null;
    const name = el("figcaption.soft", {}, text);
    const element = el(
      "div.why-stage",
      {
        tabindex: "0",
        role: "application",
        "aria-label": `${text}. Arrow keys move between its regions, Escape deselects.`,
      },
      image,
      canvas,
      frame,
      region,
    );

    /** The region that a pointer is over, or null beyond the box. */
    function under(event) {
      const bounds = element.getBoundingClientRect();
      const { rows, columns, width, height } = found[side];
      const x = ((event.clientX - bounds.left) / bounds.width) * width;
      const y = ((event.clientY - bounds.top) / bounds.height) * height;
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
        image.src = known.photo;
        image.alt = known.name;
        name.replaceChildren(`${text}, `, el("b", { title: known.name }, shortName(known.name)));
        style(element, { "--ratio": String(known.width / known.height || 4 / 3) });
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
    const opacity = el("input", {
      type: "range",
      min: "0",
      max: "100",
      value: localStorage.getItem("solar-why-opacity") ?? "75",
      on: { input: () => fade(opacity.value) },
    });
    fade(opacity.value);
    return el(
      "div.look-controls.why-controls",
      {},
      toggle("Lines", null, true, (on) => sheet.classList.toggle("none", !on)),
      info.attention.length > 0 &&
        toggle("Without attention", null, Boolean(params.plain), (on) =>
          route.go(route.address("why", [a, b], { ...params, plain: on && "1" }), {
            replace: true,
          }),
        ),
      el("label.field", {}, el("span", {}, "Opacity"), opacity),
      el("div.why-legend", {}, swatch(FOR, "more similar"), swatch(AGAINST, "less similar")),
      linkButton("Search with the result", route.address("search", [], { q: b }), "search"),
      linkButton("Matching details", route.address("match", [a, b], { box: params.box }), "match"),
    );
  }

  function fade(value) {
    style(pair, { "--opacity": String(value / 100) });
    localStorage.setItem("solar-why-opacity", value);
  }

  return {
    show(changed) {
      params = changed;
      explain();
    },
    leave() {
      control.abort();
      watch.disconnect();
    },
    keys: {
      get Escape() {
        return chosen ? clear : undefined;
      },
    },
  };
}

const middle = ([left, top, right, bottom]) => [(left + right) / 2, (top + bottom) / 2];

function cover(node, [left, top, right, bottom], { width, height }) {
  style(node, {
    left: `${(100 * left) / width}%`,
    top: `${(100 * top) / height}%`,
    width: `${(100 * (right - left)) / width}%`,
    height: `${(100 * (bottom - top)) / height}%`,
  });
}

const swatch = (colour, text) =>
  el("span", {}, style(el("i.swatch"), { background: `rgb(${colour.join(" ")})` }), text);
