// The map itself: moving over it, zooming, choosing a photo, selecting several.

import * as cameras from "../camera.js";
import { thumbnail } from "../card.js";
import { el, style } from "../dom.js";
import { TAP, watchGestures } from "../gestures.js";
import { drawMap, pictured, pictureSize, visible } from "../map_canvas.js";
import { say } from "../notice.js";
import * as route from "../route.js";
import { pictures } from "../pictures.js";
import { photoAddress } from "../viewer/address.js";
import { counted, shortName } from "../words.js";
import { closest, worldTiles } from "./tiles.js";

// The least of the world that is shown at first, from west to east.
const [CITY, REGION] = [0.0005, 0.06];
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const LABEL =
  "The map. Arrow keys move from photo to photo; with Shift they also select. Enter opens the photo, q searches with it, Space selects it. Plus and minus zoom.";
// Where the visitor was on the map, for when they come back or reload the page.
const REMEMBERED = `solar-map:${location.pathname}`;
let remembered = JSON.parse(sessionStorage.getItem(REMEMBERED));

/**
 * Draws points into `holder`.
 * @param {function(object): string} colourOf The colour of a point.
 * @param {function(object[])} selecting Called with the photos that are selected.
 * @param {?object} world Where the points are on a map of the world: its `tiles` and whom they are
 *   from (`tiles_attribution`), or null for an outline.
 */
export function chart(holder, points, colourOf, selecting, world = null) {
  const canvas = el("canvas", { tabindex: "0", role: "application", "aria-label": LABEL });
  const card = el("div.map-card", { hidden: true });
  const credit = world?.tiles && el("small.map-credit", {}, world.tiles_attribution);
  holder.replaceChildren(...[canvas, credit, card].filter(Boolean));
  const between = cameras.spacing(points);
  let camera = null;
  let chosen = null;
  let selected = new Set();
  let colours = null;
  let due = 0;
  let size = { width: 0, height: 0 };
  // Pictures of the smallest width that the server makes.
  const photos = pictures(draw, ({ thumbnail }) => thumbnail.replace(/\bw=\d+/, "w=160"));
  const tiles = world?.tiles && worldTiles(world.tiles, draw);
  const least = world && (tiles ? CITY : REGION);
  let boxing = false; // whether dragging draws a box, as it does with Shift
  let band = null; // the box: x1, y1, x2, y2 in the window

  function draw() {
    due ||= requestAnimationFrame(() => {
      due = 0;
      const seen = visible(camera, points, size.width, size.height);
      const wide = pictureSize(seen.length, size.width, size.height);
      const shown = pictured(camera, seen, wide);
      photos.want(shown);
      drawMap(canvas, {
        ...{ camera, points: seen, shown: new Set(shown), size: wide, picture: photos.get },
        ...{ chosen, selected, colours, colourOf, band, world, tiles },
      });
      canvas.dataset.pictures = shown.filter((point) => photos.get(point.id)).length;
      canvas.dataset.seen = seen.length;
      remembered = { camera, world: Boolean(world), points: points.length };
    });
  }

  function recolour(next = colourOf) {
    colourOf = next;
    const here = getComputedStyle(canvas);
    colours = { ink: here.color, accent: here.outlineColor, veil: here.caretColor };
    draw();
  }

  function measure() {
    const { width, height } = holder.getBoundingClientRect();
    const ratio = devicePixelRatio || 1;
    if (!width || !height) return;
    const before = size;
    size = { width, height };
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const same =
      remembered?.points === points.length &&
      remembered.world === Boolean(world) &&
      remembered.camera.window === `${width}x${height}`;
    camera ??= same ? remembered.camera : null;
    if (camera?.window !== `${width}x${height}`)
      move(camera ? cameras.resized(camera, before, whole(), size) : whole(), { keeping: true });
    recolour();
  }

  /** Shows another part of the map; `keeping` the chosen photo, if that part has it. */
  function move(next, { keeping = false } = {}) {
    camera = cameras.kept(next, points, size.width, size.height);
    if (keeping && chosen && inView(chosen)) place();
    else choose(null);
    draw();
  }

  function inView(point) {
    const [x, y] = cameras.toScreen(camera, point);
    return x >= 0 && y >= 0 && x <= size.width && y <= size.height;
  }

  /** The camera that sees all photos. */
  const whole = () => ({
    ...cameras.fitted(points, size.width, size.height, least),
    window: `${size.width}x${size.height}`,
  });

  const fit = () => move(whole(), { keeping: true });

  function zoomed(factor, at) {
    const most = Math.max(cameras.closest(camera, between), tiles ? closest(camera.across) : 0);
    return cameras.zoomed(camera, factor, at, most);
  }

  /** Zooms where the chosen photo is, which so stays in sight, or else in the middle. */
  function zoom(factor) {
    const at = chosen ? cameras.toScreen(camera, chosen) : [size.width / 2, size.height / 2];
    move(zoomed(factor, at), { keeping: true });
  }

  function select(chosenOnes) {
    selected = new Set(chosenOnes);
    draw();
    selecting([...selected]);
    say(`${counted(selected.size, "photo")} selected`);
  }

  /** Selects the photos in a part of the window. */
  function selectWithin([x1, y1, x2, y2]) {
    const [left, right] = [Math.min(x1, x2), Math.max(x1, x2)];
    const [top, bottom] = [Math.min(y1, y2), Math.max(y1, y2)];
    select(
      points.filter((point) => {
        const [x, y] = cameras.toScreen(camera, point);
        return x >= left && x <= right && y >= top && y <= bottom;
      }),
    );
  }

  /** Shows a photo's card beside its place. */
  function choose(point) {
    if (chosen === point) return;
    chosen = point;
    card.hidden = true;
    canvas.classList.toggle("over", Boolean(point));
    draw();
    if (!point) return;
    const picture = thumbnail(point);
    // Only then is it known how high the card is.
    picture.addEventListener("load", place);
    card.replaceChildren(
      picture,
      el("span", {}, shortName(point.name)),
      ...(point.label ? [el("small", {}, point.label)] : []),
      ...(point.taken ? [el("small", {}, point.taken.slice(0, 10))] : []),
    );
    card.hidden = false;
    place();
    say(point.name);
  }

  /** Puts the card beside the chosen photo, inside the map. */
  function place() {
    if (!chosen) return;
    const [x, y] = cameras.toScreen(camera, chosen);
    const inside = (from, room) => `${Math.max(Math.min(from, room - 8), 8)}px`;
    style(card, { "--room": `${size.height}px` });
    style(card, {
      left: inside(x + 18, size.width - card.offsetWidth),
      top: inside(y + 18, size.height - card.offsetHeight),
    });
  }

  const open = (point) => point && route.go(photoAddress(point.id));

  function reach() {
    const seen = visible(camera, points, size.width, size.height).length;
    return Math.max(14, 0.5 * pictureSize(seen, size.width, size.height));
  }

  const pointAt = (place) => cameras.nearest(camera, points, place, reach());

  watchGestures(canvas, {
    hover: (place) => choose(pointAt(place)),
    press(place, event) {
      if (event.shiftKey || boxing) band = [...place, ...place];
    },
    drag(dx, dy, place, far) {
      if (band) {
        band = [band[0], band[1], ...place];
        choose(null);
        draw();
      } else if (far > TAP) move(cameras.panned(camera, dx, dy));
    },
    pan(dx, dy) {
      band = null;
      move(cameras.panned(camera, dx, dy));
    },
    zoom: (factor, place) => move(zoomed(factor, place)),
    lift(place, { event, far, alone }) {
      const drawn = band;
      band = null;
      draw();
      if (!alone) return;
      const point = pointAt(place);
      if (drawn && far > TAP) selectWithin(drawn);
      else if (far > TAP) return;
      else if (drawn) toggle(point);
      // A finger cannot hover: its first tap shows the photo, the second opens it.
      else if (event.pointerType === "touch" && point !== chosen) choose(point);
      else open(point);
    },
  });
  canvas.addEventListener("pointerleave", ({ pointerType, buttons }) => {
    // A finger leaves with every tap, and what it chose stays.
    if (pointerType !== "touch" && !buttons) choose(null);
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter") open(chosen);
    else if (event.key === " ") toggle(chosen);
    else if (ARROWS[event.key]) step(ARROWS[event.key], event.shiftKey);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  function toggle(point) {
    if (!point) return;
    const next = new Set(selected);
    if (!next.delete(point)) next.add(point);
    select(next);
  }

  /** Goes to the next photo in a direction; `more` selects both. */
  function step(way, more) {
    const middle = [size.width / 2, size.height / 2];
    const next = chosen
      ? cameras.neighbour(camera, points, chosen, way)
      : cameras.nearest(camera, points, middle, Infinity);
    if (!next) return;
    if (more) select(new Set([...selected, ...(chosen ? [chosen] : []), next]));
    const [x, y] = cameras.toScreen(camera, next);
    if (!inView(next)) camera = cameras.panned(camera, middle[0] - x, middle[1] - y);
    choose(next);
  }

  const store = () => sessionStorage.setItem(REMEMBERED, JSON.stringify(remembered));
  addEventListener("pagehide", store);
  const watch = new ResizeObserver(measure);
  watch.observe(holder);
  measure();
  return {
    zoom,
    fit,
    recolour,
    clear: () => select([]),
    selectVisible: () => selectWithin([0, 0, size.width, size.height]),
    /** The id of the photo whose card is shown. */
    get chosen() {
      return chosen?.id;
    },
    get selected() {
      return selected.size;
    },
    set boxing(on) {
      boxing = on;
      canvas.classList.toggle("boxing", on);
    },
    leave() {
      removeEventListener("pagehide", store);
      store();
      watch.disconnect();
      cancelAnimationFrame(due);
    },
  };
}
