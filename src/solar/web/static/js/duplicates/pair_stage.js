// Two photos of a group: side by side, or one over the other with a slider.

import { el, set, shaped, style } from "../dom.js";
import { shortName } from "../words.js";
import { alignment, corners, transform } from "./alignment.js";

const SIDES = ["a", "b"];

/** A stage for pairs, and the slider's keys: `show(group, pair, aligned)`, `blink()`, `focus()`. */
export function pairStage() {
  const pictures = Object.fromEntries(SIDES.map((side) => [side, picture()]));
  const beside = el("div.dup-beside", {}, ...SIDES.map((side) => pictures[side].element));
  const overlay = slider();
  const element = el("div.dup-stage", {}, beside, overlay.element);
  return {
    element,
    /** Shows a pair, laid over each other if `aligned` and they can be; gives whether they can. */
    show(group, pair, aligned) {
      const photos = { a: group.photos[pair.a], b: group.photos[pair.b] };
      const found = alignment(pair);
      const laid = Boolean(found && aligned);
      beside.hidden = laid;
      overlay.element.hidden = !laid;
      if (laid) {
        overlay.show(photos, pair, found);
      } else {
        for (const side of SIDES) {
          pictures[side].show(photos[side], pair[side], found?.ground === side && found.matrix);
        }
      }
      return Boolean(found);
    },
    blink: () => overlay.blink(),
    focus: () => overlay.range.focus(),
    leave: () => overlay.leave(),
  };
}

function put(image, photo) {
  const address = photo.photo;
  image.closest(".dup-picture, .dup-laid")?.classList.toggle("gone", !address);
  image.alt = photo.name;
  if (image.getAttribute("src") !== address) set(image, "src", address);
}

const photoImage = () =>
  el("img", {
    alt: "",
    draggable: "false",
    on: {
      error: ({ target }) => target.closest(".dup-picture, .dup-laid")?.classList.add("gone"),
      load: ({ target }) => target.closest(".dup-picture, .dup-laid")?.classList.remove("gone"),
    },
  });

/** A photo alone, with a frame where the other one of its pair lies inside it. */
function picture() {
  const image = photoImage();
  const badge = el("span.dup-number");
  const frame = el("path", { "vector-effect": "non-scaling-stroke" });
  const sheet = el(
    "svg.dup-frame",
    { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" },
    frame,
  );
  const element = el("div.dup-picture", {}, image, sheet, badge);
  return {
    element,
    show(photo, number, matrix) {
      put(image, photo);
      shaped(element, photo);
      badge.textContent = String(number + 1);
      const places = matrix ? corners(matrix) : [];
      const inside = places.some(([x, y]) => Math.min(x, y, 1 - x, 1 - y) > 0.02);
      set(sheet, "hidden", !inside);
      if (inside) set(frame, "d", `M${places.map((place) => place.join(" ")).join("L")}Z`);
    },
  };
}

/** A photo over another; the slider says how much of it is seen. */
function slider() {
  const ground = photoImage();
  const over = photoImage();
  const [left, right] = [el("span.dup-number"), el("span.dup-number.over")];
  const clip = el("div.dup-over", {}, over);
  const line = el("i.dup-line", { "aria-hidden": "true" });
  const range = el("input.dup-range", {
    type: "range",
    min: "0",
    max: "100",
    value: "50",
    on: { input: () => place() },
  });
  const box = el("div.dup-laid", {}, ground, clip, line, left, right, range);
  let matrix = null;

  function place() {
    style(box, { "--at": `${range.value}%` });
    if (matrix) over.style.transform = transform(matrix, box.clientWidth, box.clientHeight);
  }
  const watch = new ResizeObserver(place);
  watch.observe(box);

  return {
    element: box,
    range,
    show(photos, pair, found) {
      ({ matrix } = found);
      put(ground, photos[found.ground]);
      put(over, photos[found.over]);
      shaped(box, photos[found.ground]);
      left.textContent = String(pair[found.ground] + 1);
      right.textContent = String(pair[found.over] + 1);
      const names = [found.ground, found.over].map((side) => shortName(photos[side].name));
      range.setAttribute("aria-label", `Slide between ${names.join(" and ")}`);
      place();
    },
    blink() {
      range.value = Number(range.value) < 50 ? "100" : "0";
      place();
    },
    leave: () => watch.disconnect(),
  };
}
