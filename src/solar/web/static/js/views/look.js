// Look: where a location of a photo attends. Click, drag, or move the star with the arrows.

import { isAbort, post } from "../api.js";
import { button, el, linkButton, placeOn, refill, style, viewHead } from "../dom.js";
import { drawHeat, drawLegend } from "../heat.js";
import { heatStage } from "../heat_stage.js";
import { nothing, problem, say } from "../notice.js";
import { chooser, opacitySlider } from "../options.js";
import { photo } from "../photos.js";
import { picker } from "../picker.js";
import * as route from "../route.js";
import { shortName } from "../words.js";
import { remade } from "./remade.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
// A dragged star asks less often than servers allow.
const PACE = 60;
const STAR = "M0-9 2.6-3 9-2.6 4.2 1.8 5.6 8.4 0 5-5.6 8.4-4.2 1.8-9-2.6-2.6-3Z";

/** Makes the view in `root`. */
export function look(root, shared) {
  const address = (id) => route.address("look", [id]);
  const choose = () =>
    picker(root, {
      title: "Attention maps",
      text: "Choose a photo and click a point to see its attention map.",
      open: address,
      take: shared.receive,
    });
  const make = ({ parts: [id], params }) => (id ? looking(root, shared, id, params) : choose());
  const takePhoto = ({ id }) => route.go(address(id));
  return remade(root, "Look", ({ parts: [id] }) => id, make, { takePhoto });
}

function looking(root, shared, id, first) {
  const models = shared.info.models.filter((model) => model.attention.length);
  if (!models.length) {
    root.append(
      nothing(
        "The model of this collection has no attention maps.",
        linkButton("Back", "#/", "back"),
      ),
    );
    return {};
  }
  let params = first;
  let shown = null;
  let map = null;
  let asking = null;
  let next = null;

  const model = () => models.find((one) => one.name === params.model) ?? models[0];
  const layer = () => {
    const wanted = Number(params.layer);
    return model().attention.includes(wanted) ? wanted : model().attention.at(-1);
  };

  const star = el(
    "svg.star",
    { viewBox: "-11 -11 22 22", "aria-hidden": "true" },
    el("path", { d: STAR }),
  );
  const { element: stage, canvas, ...heat } = heatStage(
    "div.look-stage",
    "The photo. Click a point, or move the star with the arrow keys.",
    star,
  );
  const facts = el("p.facts", { role: "status" }, "Computing the attention map…");
  const trouble = el("div");
  const controls = el("div.look-controls");
  const title = el("h1.view-title", {}, "Look");
  root.append(
    el(
      "div.look",
      {},
      viewHead(button("Back", { symbol: "back", on: route.back }), title),
      stage,
      controls,
      facts,
      trouble,
    ),
  );

  photo(id).then(build, (error) => {
    for (const part of [stage, controls, facts]) part.remove();
    trouble.replaceChildren(problem(error));
  });

  function build(found) {
    shown = found;
    heat.show(found);
    title.textContent = shortName(found.name);
    showControls();
    at(params);
  }

  function showControls() {
    const legend = el("canvas.legend", { "aria-hidden": "true" });
    drawLegend(legend);
    const made = [
      chooser(
        "Layer",
        model().attention.map((one) => [String(one), String(one)]),
        String(layer()),
        (value) => go({ layer: value }),
      ),
      models.length > 1 &&
        chooser(
          "Model",
          models.map((one) => [one.name, one.name]),
          model().name,
          (name) => go({ model: name, layer: "" }),
        ),
      opacitySlider((value) => (canvas.style.opacity = value)),
      el(
        "div.field",
        {},
        el("span", {}, "Attention"),
        el("div.legend-row", {}, el("small", {}, "low"), legend, el("small", {}, "high")),
      ),
      linkButton("Search with this photo", route.address("search", [], { q: id }), "search"),
    ];
    refill(controls, made);
  }

  function go(patch) {
    route.go(route.address("look", [id], { ...params, ...patch }), { replace: true });
  }

  /** Looks from the place that the address names, or from the middle. */
  function at({ x, y }) {
    aim(Number(x ?? shown.width / 2), Number(y ?? shown.height / 2));
  }

  function aim(x, y) {
    style(star, { left: `${(100 * x) / shown.width}%`, top: `${(100 * y) / shown.height}%` });
    next = { photo: id, x, y, layer: layer(), model: params.model || undefined };
    ask();
  }

  /** Asks for the newest place; while one is under way or the last was just now, it waits. */
  async function ask() {
    if (asking || !next) return;
    asking = new AbortController();
    const wanted = next;
    next = null;
    stage.setAttribute("aria-busy", "true");
    try {
      map = await post("/attention", wanted, { signal: asking.signal });
      drawHeat(canvas, map, shown);
      trouble.replaceChildren();
      facts.textContent = `Layer ${map.layer}, ${map.columns} × ${map.rows} cells. Click or drag anywhere.`;
    } catch (error) {
      if (isAbort(error)) return;
      trouble.replaceChildren(problem(error, () => at(params)));
    } finally {
      await new Promise((resolve) => setTimeout(resolve, PACE));
      asking = null;
    }
    if (next) ask();
    else stage.removeAttribute("aria-busy");
  }

  /** A place inside the photo. */
  const inside = ([x, y]) => [
    Math.min(Math.max(x, 0), shown.width - 1),
    Math.min(Math.max(y, 0), shown.height - 1),
  ];
  const place = (event) => inside(placeOn(stage, event, shown));
  const written = ([x, y]) => ({ x: Math.round(x), y: Math.round(y) });

  stage.addEventListener("pointerdown", (event) => {
    if (!shown || event.button !== 0) return;
    stage.setPointerCapture(event.pointerId);
    const move = (moved) => aim(...place(moved));
    stage.addEventListener("pointermove", move);
    stage.addEventListener(
      "lostpointercapture",
      () => stage.removeEventListener("pointermove", move),
      { once: true },
    );
    aim(...place(event));
  });
  stage.addEventListener("pointerup", (event) => shown && go(written(place(event))));
  stage.addEventListener("keydown", (event) => {
    const way = ARROWS[event.key];
    if (!way || !map || !shown) return;
    event.preventDefault();
    const [columns, rows] = map.extent ?? [map.columns, map.rows];
    const x = Number(params.x ?? shown.width / 2) + (way[0] * shown.width) / columns;
    const y = Number(params.y ?? shown.height / 2) + (way[1] * shown.height) / rows;
    go(written(inside([x, y])));
    say(`The star is at ${Math.round(x)}, ${Math.round(y)}.`);
  });

  return {
    show(changed) {
      const options = params.model !== changed.model || params.layer !== changed.layer;
      params = changed;
      if (!shown) return;
      if (options) showControls();
      at(params);
    },
    leave() {
      asking?.abort();
      next = null;
    },
    keys: { 4: () => go({ layer: "4" }), 5: () => go({ layer: "5" }) },
  };
}
