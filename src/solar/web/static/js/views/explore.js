// Explore: all photos on one map, alike ones close together.

import { get, isAbort } from "../api.js";
import { button, el, refill, set, viewHead } from "../dom.js";
import { chart } from "../map/chart.js";
import { colouring, KINDS, kindsFor } from "../map/colouring.js";
import { selectedList } from "../map/selected.js";
import { nothing, problem } from "../notice.js";
import { onWorld } from "../map/world.js";
import { chooser } from "../options.js";
import * as route from "../route.js";
import { count, counted } from "../words.js";

const AGAIN = 700;
const MEANING = {
  tsne: "Photos that look alike to the model lie close together (t-SNE). Distances between groups that are far apart have no meaning, and neither do directions.",
  pca: "Photos that look alike to the model lie close together. Different photos may lie close together, too, because this shows two components (PCA), only a small part of the differences.",
};

/** How to move and to open, for a mouse or for fingers. */
const hint = () =>
  matchMedia("(pointer: coarse)").matches
    ? "Drag to move, pinch to zoom, tap a photo twice to open it."
    : "Drag to move, scroll to zoom, click a photo to open it.";

/** Makes the view in `root`. */
export function explore(root, { info }) {
  const control = new AbortController();
  const note = el("p.facts", { role: "status" }, "Opening the map…");
  const holder = el("div.map", { "aria-busy": "true" });
  const tools = el("div.map-buttons");
  const legend = el("div.map-legend", { hidden: true });
  const chosen = selectedList(() => map?.clear());
  root.append(el("div.explore", {}, viewHead("Map", note, tools), holder, legend, chosen.element));
  let map = null;
  let found = null;
  let wanted = {};
  let boxButton = null;

  load();

  async function load() {
    try {
      let answer = await get("/map", { signal: control.signal });
      while (answer.unfinished) {
        note.textContent = `Arranging similar photos close together: ${Math.round(answer.seconds)} s so far…`;
        await new Promise((resolve) => setTimeout(resolve, AGAIN));
        answer = await get("/map", { signal: control.signal });
      }
      note.textContent = "";
      if (answer.points.length) begin(answer);
      else holder.replaceChildren(nothing("There are no photos to show on a map."));
    } catch (error) {
      if (isAbort(error)) return;
      note.textContent = "";
      holder.replaceChildren(problem(error, load));
    }
    holder.removeAttribute("aria-busy");
  }

  function begin(answer) {
    const placed = answer.points.filter(({ position }) => position);
    const world = wanted.by === "place" && placed.length > 0;
    const points = world
      ? placed.map((point) => ({ ...point, ...onWorld(point.position) }))
      : answer.points;
    found = { ...answer, points, world, all: answer, placed: placed.length };
    const part = answer.total > points.length ? ` of ${count(answer.total)}` : "";
    note.textContent = `${counted(points.length, "photo")}${part}. ${hint()}`;
    const icon = (symbol, name, key, on) =>
      button("", {
        ...{ symbol, kind: "icon-button", "aria-label": name, title: `${name} (${key})`, on },
      });
    boxButton = button("Box", {
      ...{ symbol: "box", "aria-pressed": "false", on: toggleBox },
      title: "Drag a box around photos to select them (b, or Shift and drag)",
    });
    tools.replaceChildren(
      boxButton,
      button("Select view", {
        title: "Select the photos in view (v)",
        on: () => map.selectVisible(),
      }),
      icon("add", "Zoom in", "+", () => map.zoom(1.5)),
      icon("less", "Zoom out", "-", () => map.zoom(1 / 1.5)),
      button("Fit", { title: "Show the whole map (0)", on: () => map.fit() }),
    );
    const colours = colour();
    map?.leave();
    map = chart(holder, points, colours.of, chosen.show, world ? info.settings : null);
  }

  const go = (patch) => {
    const { colour, by } = { ...wanted, ...patch };
    route.go(route.address("map", [], { colour, by }), { replace: true });
  };

  /** The colours that are wanted, told in the legend. */
  function colour() {
    const kinds = kindsFor(found.points);
    const kind = kinds.includes(wanted.colour) ? wanted.colour : kinds[0];
    const arrangement = chooser(
      "Arrange",
      [["", "By likeness"], ["place", "On the world map"]],
      wanted.by ?? "",
      (by) => go({ by }),
    );
    const choice = chooser(
      "Colour by",
      kinds.map((one) => [one, KINDS[one]]),
      kind,
      (next) => go({ colour: next }),
    );
    const colours = colouring(kind, found.points);
    const row = el("div.row", {}, choice, found.placed > 0 && arrangement, ...colours.legend);
    const meaning = el("p", {}, MEANING[found.method] ?? MEANING.tsne);
    const details = !found.world && el("details", {}, el("summary", {}, "Details"), meaning);
    legend.hidden = false;
    refill(legend, [row, details]);
    return colours;
  }

  function toggleBox() {
    const on = boxButton.getAttribute("aria-pressed") !== "true";
    set(boxButton, "aria-pressed", String(on));
    map.boxing = on;
  }

  return {
    title: "Map",
    order: () => found?.points.map(({ id }) => id) ?? null,
    show({ params }) {
      const [colours, arranged] = ["colour", "by"].map((name) => wanted[name] !== params[name]);
      wanted = params;
      if (map && arranged) begin(found.all);
      else if (map && colours) map.recolour(colour().of);
      return false;
    },
    recolour: () => map?.recolour(),
    leave() {
      control.abort();
      map?.leave();
    },
    keys: {
      "+": () => map?.zoom(1.5),
      "-": () => map?.zoom(1 / 1.5),
      0: () => map?.fit(),
      b: () => map && toggleBox(),
      v: () => map?.selectVisible(),
      ArrowDown: () => holder.querySelector("canvas")?.focus(),
      get q() {
        const id = map?.chosen;
        return id && (() => route.go(route.address("search", [], { q: id })));
      },
      get Escape() {
        return map?.selected ? map.clear : undefined;
      },
    },
  };
}
