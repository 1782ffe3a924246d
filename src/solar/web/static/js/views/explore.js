// Explore: all photos on one map, alike ones close together.

import { get, isAbort } from "../api.js";
import * as cameras from "../camera.js";
import { thumbnail } from "../card.js";
import { button, el, style } from "../dom.js";
import { drawMap, pictureSize, visible } from "../map_canvas.js";
import { nothing, problem, say } from "../notice.js";
import * as route from "../route.js";
import { thumbnails } from "../thumbnails.js";
import { counted, shortName } from "../words.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const AGAIN = 700;
const METHODS = { tsne: "t-SNE", umap: "UMAP", pca: "two main directions" };
// Where the visitor was on the map, for when they come back.
let remembered = null;

/** Makes the view in `root`. */
export function explore(root) {
  const control = new AbortController();
  const note = el("p.facts", { role: "status" }, "Opening the map…");
  const holder = el("div.map", { "aria-busy": "true" });
  const zooms = el("div.map-buttons");
  root.append(
    el(
      "div.explore",
      {},
      el("div.view-head", {}, el("h1.view-title", {}, "Explore"), note, zooms),
      holder,
    ),
  );
  let map = null;

  load();

  async function load() {
    try {
      let answer = await get("/map", { signal: control.signal });
      while (answer.unfinished) {
        note.textContent = `Arranging the photos, alike ones close together: ${Math.round(answer.seconds)} s so far…`;
        await new Promise((resolve) => setTimeout(resolve, AGAIN));
        answer = await get("/map", { signal: control.signal });
      }
      holder.removeAttribute("aria-busy");
      if (!answer.points.length) {
        note.textContent = "";
        holder.replaceChildren(nothing("There are no photos to put on a map."));
        return;
      }
      const method = METHODS[answer.method] ?? answer.method;
      note.textContent = `${counted(answer.points.length, "photo")} by ${method}. Drag, zoom, click one to search with it.`;
      zooms.replaceChildren(
        button("", {
          symbol: "add",
          kind: "icon-button",
          "aria-label": "Closer",
          title: "Closer (+)",
          on: () => map.zoom(1.5),
        }),
        button("", {
          symbol: "less",
          kind: "icon-button",
          "aria-label": "Farther",
          title: "Farther (-)",
          on: () => map.zoom(1 / 1.5),
        }),
        button("Whole map", { title: "The whole map (0)", on: () => map.fit() }),
      );
      map = chart(holder, answer.points);
    } catch (error) {
      if (isAbort(error)) return;
      holder.removeAttribute("aria-busy");
      note.textContent = "";
      holder.replaceChildren(problem(error, load));
    }
  }

  return {
    title: "Explore",
    show() {},
    recolour: () => map?.recolour(),
    leave() {
      control.abort();
      map?.leave();
    },
    keys: {
      "+": () => map?.zoom(1.5),
      "-": () => map?.zoom(1 / 1.5),
      0: () => map?.fit(),
      ArrowDown: () => holder.querySelector("canvas")?.focus(),
    },
  };
}

function chart(holder, points) {
  const canvas = el("canvas", {
    tabindex: "0",
    role: "application",
    "aria-label": "The map. Arrows go from photo to photo, Enter searches, plus and minus zoom.",
  });
  const card = el("div.map-card", { hidden: true });
  holder.replaceChildren(canvas, card);
  let camera = null;
  let chosen = null;
  let colours = null;
  let due = 0;
  let size = { width: 0, height: 0 };
  const pictures = thumbnails(draw);
  const fingers = new Map();
  let dragged = 0;

  function draw() {
    due ||= requestAnimationFrame(() => {
      due = 0;
      const seen = visible(camera, points, size.width, size.height);
      const wide = pictureSize(seen.length, size.width, size.height);
      if (wide) pictures.want(seen);
      drawMap(canvas, { camera, points: seen, size: wide, picture: pictures.get, chosen, colours });
      canvas.dataset.pictures = wide ? seen.filter((point) => pictures.get(point.id)).length : 0;
      remembered = { camera, points: points.length };
    });
  }

  function recolour() {
    const here = getComputedStyle(canvas);
    colours = {
      dot: here.getPropertyValue("color"),
      line: here.getPropertyValue("border-top-color"),
      accent: here.getPropertyValue("outline-color"),
    };
    draw();
  }

  function measure() {
    const { width, height } = holder.getBoundingClientRect();
    const ratio = devicePixelRatio || 1;
    if (!width || !height) return;
    size = { width, height };
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const same =
      remembered?.points === points.length && remembered.camera.window === `${width}x${height}`;
    camera ??= same ? remembered.camera : null;
    if (camera?.window !== `${width}x${height}`) {
      const kept = chosen;
      fit();
      choose(kept);
    }
    recolour();
  }

  function move(next) {
    camera = next;
    choose(null);
    draw();
  }

  function fit() {
    move({
      ...cameras.fitted(points, size.width, size.height),
      window: `${size.width}x${size.height}`,
    });
  }

  const zoom = (factor, at = [size.width / 2, size.height / 2]) =>
    move(cameras.zoomed(camera, factor, at));

  /** Shows a photo's card beside its place. */
  function choose(point) {
    if (chosen === point) return;
    chosen = point;
    card.hidden = true;
    canvas.classList.toggle("over", Boolean(point));
    draw();
    if (!point) return;
    card.replaceChildren(
      thumbnail(point),
      el("span", {}, shortName(point.name)),
      ...(point.label ? [el("small", {}, point.label)] : []),
    );
    const [x, y] = cameras.toScreen(camera, point);
    card.hidden = false;
    style(card, {
      left: `${Math.min(Math.max(x + 18, 8), size.width - card.offsetWidth - 8)}px`,
      top: `${Math.min(Math.max(y + 18, 8), size.height - card.offsetHeight - 8)}px`,
    });
    say(point.name);
  }

  const open = (point) => point && route.go(route.address("search", [], { q: point.id }));

  function at(event) {
    const bounds = canvas.getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  }

  const reach = () =>
    Math.max(
      14,
      0.5 *
        pictureSize(
          visible(camera, points, size.width, size.height).length,
          size.width,
          size.height,
        ),
    );

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    if (fingers.size === 1) dragged = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = at(event);
    const before = fingers.get(event.pointerId);
    if (!before) {
      choose(cameras.nearest(camera, points, now, reach()));
      return;
    }
    const others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    fingers.set(event.pointerId, now);
    dragged += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (others.length) pinch(others[0], before, now);
    else if (dragged > 4) move(cameras.panned(camera, now[0] - before[0], now[1] - before[1]));
  });

  /** Two fingers: their distance zooms, their middle pans. */
  function pinch(other, before, now) {
    const apart = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]) || 1;
    const middle = [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2];
    const next = cameras.panned(camera, (now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    move(cameras.zoomed(next, apart(now) / apart(before), middle));
  }

  const lift = (event) => {
    const clicked = fingers.delete(event.pointerId) && !fingers.size && dragged <= 4;
    if (!clicked || event.type !== "pointerup") return;
    const point = cameras.nearest(camera, points, at(event), reach());
    // A finger cannot hover: its first tap shows the photo, the second searches with it.
    if (event.pointerType === "touch" && point !== chosen) choose(point);
    else open(point);
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => fingers.size || choose(null));
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), at(event));
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter") open(chosen);
    else if (ARROWS[event.key]) step(ARROWS[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  function step(way) {
    const middle = [size.width / 2, size.height / 2];
    const next = chosen
      ? cameras.neighbour(camera, points, chosen, way)
      : cameras.nearest(camera, points, middle, Infinity);
    if (!next) return;
    const [x, y] = cameras.toScreen(camera, next);
    const outside = x < 0 || y < 0 || x > size.width || y > size.height;
    if (outside) camera = cameras.panned(camera, middle[0] - x, middle[1] - y);
    choose(next);
  }

  const watch = new ResizeObserver(measure);
  watch.observe(holder);
  measure();
  return {
    zoom,
    fit,
    recolour,
    leave() {
      watch.disconnect();
      cancelAnimationFrame(due);
    },
  };
}
