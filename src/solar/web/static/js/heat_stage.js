// A photo with a map of heat on it, which a pointer and the keyboard ask about.

import { el, shaped } from "./dom.js";

/** @param {...Node} over What lies over the map. */
export function heatStage(kind, label, ...over) {
  const image = el("img", { alt: "", draggable: "false" });
  const canvas = el("canvas.heat", { "aria-hidden": "true" });
  const given = { tabindex: "0", role: "application", "aria-label": label };
  const element = el(kind, given, image, canvas, ...over);
  return {
    element,
    canvas,
    show(photo) {
      image.src = photo.photo;
      image.alt = photo.name;
      shaped(element, photo);
    },
  };
}
