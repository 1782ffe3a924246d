// Look: where a location of a photo attends. Click, drag, or move the star with the arrows.

import { isAbort, post } from "../api.js";
import { button, el, linkButton, style } from "../dom.js";
import { drawHeat, drawLegend } from "../heat.js";
import { nothing, problem, say } from "../notice.js";
import { chooser, segmented } from "../options.js";
import { photo } from "../photos.js";
import { picker } from "../picker.js";
import * as route from "../route.js";
import { duration, shortName } from "../words.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
// A dragged star asks less often than servers allow.
const PACE = 60;
const STAR = "M0-9 2.6-3 9-2.6 4.2 1.8 5.6 8.4 0 5-5.6 8.4-4.2 1.8-9-2.6-2.6-3Z";

/** Makes the view in `root`. */
export function look(root, shared) {
  let content = null;
  return {
    title: "Look",
    show({ parts: [id], params }) {
      const stays = content && content.id === id;
      if (!stays) {
        content?.leave();
        root.replaceChildren();
        content = id ? looking(root, shared, id, params) : choose(root, shared);
      } else {
        content.show?.(params);
      }
      return !stays;
    },
    leave: () => content?.leave(),
    takePhoto: (taken) => route.go(route.address("look", [taken.id])),
    get keys() {
      return content?.keys;
    },
  };
}

function choose(root, shared) {
  const { element, photos } = picker({
    title: "Attention maps",
    text: "Choose a photo and click a point to see its attention map.",
    open: (id) => route.address("look", [id]),
    take: shared.receive,
  });
  root.append(element);
  return { id: undefined, leave: photos.stop, keys: { "/": photos.find, ArrowDown: photos.focus } };
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
    return { id, leave() {} };
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

  const canvas = el("canvas.heat", { "aria-hidden": "true" });
  const star = el(
    "svg.star",
    { viewBox: "-11 -11 22 22", "aria-hidden": "true" },
    el("path", { d: STAR }),
  );
  const image = el("img", { alt: "", draggable: "false" });
  const stage = el(
    "div.look-stage",
    {
      tabindex: "0",
      role: "application",
      "aria-label": "The photo. Click a point, or move the star with the arrow keys.",
    },
    image,
    canvas,
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
      el("div.view-head", {}, button("Back", { symbol: "back", on: route.back }), title),
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
    image.src = found.photo;
    image.alt = found.name;
    title.textContent = shortName(found.name);
    style(stage, { "--ratio": String(found.width / found.height || 4 / 3) });
    showControls();
    at(params);
  }

  function showControls() {
    const opacity = el("input", {
      type: "range",
      min: "0",
      max: "100",
      value: localStorage.getItem("solar-opacity") ?? "65",
      on: { input: () => fade(opacity.value) },
    });
    const legend = el("canvas.legend", { "aria-hidden": "true" });
    drawLegend(legend);
    controls.replaceChildren(
      segmented(
        "Layer",
        model().attention.map((one) => [String(one), String(one)]),
        String(layer()),
        (value) => go({ layer: value }),
      ),
      ...(models.length > 1
        ? [
            chooser(
              "Model",
              models.map((one) => [one.name, one.name]),
              model().name,
              (name) => go({ model: name, layer: "" }),
            ),
          ]
        : []),
      el("label.field", {}, el("span", {}, "Opacity"), opacity),
      el(
        "div.field",
        {},
        el("span", {}, "Attention"),
        el("div.legend-row", {}, el("small", {}, "low"), legend, el("small", {}, "high")),
      ),
      linkButton("Search with this photo", route.address("search", [], { q: id }), "search"),
    );
    fade(opacity.value);
  }

  function fade(value) {
    canvas.style.opacity = String(value / 100);
    localStorage.setItem("solar-opacity", value);
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
      facts.textContent = `Layer ${map.layer}, ${map.columns} × ${map.rows} cells, ${duration(map.seconds)}${map.cached ? "" : " for the first map"}. Click or drag anywhere.`;
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

  function place(event) {
    const bounds = image.getBoundingClientRect();
    const part = (value, from, size, whole) =>
      Math.min(Math.max((value - from) / size, 0), 0.9999) * whole;
    return [
      part(event.clientX, bounds.left, bounds.width, shown.width),
      part(event.clientY, bounds.top, bounds.height, shown.height),
    ];
  }

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
    go(
      written([
        Math.min(Math.max(x, 0), shown.width - 1),
        Math.min(Math.max(y, 0), shown.height - 1),
      ]),
    );
    say(`The star is at ${Math.round(x)}, ${Math.round(y)}.`);
  });

  return {
    id,
    show(changed) {
      const options = params.model !== changed.model || params.layer !== changed.layer;
      params = changed;
      if (!shown) return;
      if (options) {
        const focused = controls.contains(document.activeElement) && document.activeElement;
        showControls();
        if (focused?.value)
          controls.querySelector(`[value="${CSS.escape(focused.value)}"]`)?.focus();
      }
      at(params);
    },
    leave() {
      asking?.abort();
      next = null;
    },
    keys: { 4: () => go({ layer: "4" }), 5: () => go({ layer: "5" }) },
  };
}
