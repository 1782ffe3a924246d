// A photo on which one can draw a box, move it and change its size: mouse, touch and keyboard.

import * as boxes from "./boxes.js";
import { cover, el, placeOn, refocus, shaped } from "./dom.js";
import { say } from "./notice.js";

const HANDLES = ["nw", "n", "ne", "e", "se", "s", "sw", "w"];
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const SETTLED = 500;

/**
 * @param {object} photo With width, height, photo (address) and name.
 * @param {function} changed Called with the box, or null, when the visitor has finished a change.
 */
export function boxEditor(photo, changed) {
  const frame = el("div.box", {
    tabindex: "0",
    role: "group",
    "aria-label": "The box to search with. Arrow keys move it, Shift and arrow keys resize it.",
    hidden: true,
  });
  frame.append(...HANDLES.map((edges) => el("i", { "data-edges": edges })));
  const image = el("img", { src: photo.photo, alt: photo.name, draggable: "false" });
  const stage = shaped(el("div.stage", {}, image, frame), photo);
  let box = null;
  let settling = 0;

  function show(next) {
    // An address may name a box that the photo ends in.
    box = next && boxes.between(next.slice(0, 2), next.slice(2), photo);
    frame.hidden = !box;
    stage.classList.toggle("boxed", Boolean(box));
    if (box) cover(frame, box, photo);
  }

  function settle() {
    clearTimeout(settling);
    if (box) say(`Box of ${Math.round(box[2] - box[0])} by ${Math.round(box[3] - box[1])} pixels.`);
    changed(box);
  }

  const place = (event) => placeOn(image, event, photo);

  stage.addEventListener("pointerdown", (event) => {
    const touch = event.pointerType === "touch";
    const onBox = frame.contains(event.target);
    // A finger that scrolls the page must not draw: it draws only when asked to, or on the box.
    if (event.button !== 0 || (touch && !onBox && !stage.classList.contains("drawing"))) return;
    event.preventDefault();
    stage.setPointerCapture(event.pointerId);
    drag(event, onBox);
  });

  function drag(down, onBox) {
    const start = place(down);
    const before = box;
    const edges = down.target.dataset.edges;
    const move = (event) => {
      const [x, y] = place(event);
      const [dx, dy] = [x - start[0], y - start[1]];
      if (edges) show(boxes.resized(before, edges, dx, dy, photo));
      else if (onBox) show(boxes.moved(before, dx, dy, photo));
      else show(boxes.between(start, [x, y], photo));
    };
    const control = new AbortController();
    const done = (event) => {
      control.abort();
      stage.classList.remove("drawing");
      // A click that drew nothing leaves what was there.
      if (event.type === "pointercancel" || (box && !boxes.isLargeEnough(box))) show(before);
      if (String(box) !== String(before)) settle();
      // A drag draws also from a box that is offered; a click takes that.
      else if (event.type === "pointerup") down.target.closest(".suggested")?.click();
    };
    for (const [kind, act] of [["pointermove", move], ["pointerup", done], ["pointercancel", done]])
      stage.addEventListener(kind, act, control);
  }

  frame.addEventListener("keydown", (event) => {
    if (event.key === "Delete" || event.key === "Backspace") {
      clear();
    } else if (event.key === "Enter") {
      settle();
    } else if (ARROWS[event.key]) {
      const step = Math.max(1, (event.altKey ? 0.002 : 0.02) * Math.max(photo.width, photo.height));
      const [dx, dy] = ARROWS[event.key].map((way) => way * step);
      show(
        event.shiftKey ? boxes.resized(box, "es", dx, dy, photo) : boxes.moved(box, dx, dy, photo),
      );
      clearTimeout(settling);
      settling = setTimeout(settle, SETTLED);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });

  function clear() {
    if (!box) return;
    stage.classList.remove("drawing");
    show(null);
    settle();
    say("Box removed.");
  }

  /** Offers boxes, of which one click takes one. */
  function suggest(offered) {
    for (const one of stage.querySelectorAll(".suggested")) one.remove();
    stage.append(
      ...offered.map((corners, at) => {
        const take = () => {
          show(corners);
          refocus(frame);
          settle();
        };
        const text = `Search with part ${at + 1}`;
        const given = { type: "button", "aria-label": text, title: text, on: { click: take } };
        return cover(el("button.suggested", given), corners, photo);
      }),
    );
  }

  return {
    element: stage,
    show,
    clear,
    suggest,
    /** Lets a finger draw, and gives the keyboard a box to move. */
    begin() {
      stage.classList.add("drawing");
      if (!box) {
        show(boxes.central(photo));
        settling = setTimeout(settle, SETTLED);
      }
      refocus(frame);
    },
    get box() {
      return box;
    },
  };
}
