// A photo on a stage: small at first, sharper as it arrives and as one comes closer.

import { el, style } from "../dom.js";
import { distance, TAP, watchGestures } from "../gestures.js";
import { fitted, panned, whole, zoomed } from "./zoom.js";

const CLOSER = 2.5;
const STEP = 1.5;
const PAN = 80;
const SWIPE = 50;
const AGAIN = 350;
// A picture may be stretched by this much before a larger one is worth asking for.
const STRETCH = 1.1;
// The longer side of the large pictures that the server makes.
const LARGE = 1600;

/**
 * @param {{swipe: function(number), changed: function(object)}} told `changed` gets `scale`, 1 for
 *   the whole photo, and `percent` of the photo's own pixels.
 */
export function photoStage({ swipe, changed }) {
  const image = el("img.viewer-photo", { alt: "", draggable: "false" });
  const element = el("div.viewer-stage", {}, image);
  let photo = null;
  let place = whole();
  let pixels = 0; // of the picture that is shown, on its longer side
  let asked = new Set();

  const room = () => ({ width: element.clientWidth, height: element.clientHeight });
  const longer = () => Math.max(photo.width, photo.height);

  function size() {
    const fit = fitted(photo, room());
    return { fit, width: photo.width * fit, height: photo.height * fit };
  }

  function draw() {
    if (!photo || !element.clientWidth) return;
    const { fit, width, height } = size();
    style(image, {
      width: `${width}px`,
      height: `${height}px`,
      transform: `translate(${place.x}px, ${place.y}px) scale(${place.scale})`,
    });
    element.classList.toggle("enlarged", place.scale > 1);
    image.classList.toggle("pixels", fit * place.scale > 4);
    changed({ scale: place.scale, percent: Math.round(100 * fit * place.scale) });
    sharpen();
  }

  /** Asks for a larger picture where the one that is shown is stretched. */
  function sharpen() {
    const { fit } = size();
    const wanted = longer() * fit * place.scale * (devicePixelRatio || 1);
    if (photo.photo) ask(photo.photo, Math.min(LARGE, longer()));
    if (photo.original && wanted > STRETCH * pixels && longer() > pixels && pixels >= LARGE) {
      ask(photo.original, longer());
    }
  }

  async function ask(address, large) {
    if (asked.has(address) || large <= pixels) return;
    asked.add(address);
    const mine = photo;
    const picture = new Image();
    picture.src = address;
    try {
      await picture.decode();
    } catch {
      if (mine === photo && !pixels) element.classList.add("gone");
      return; // the smaller one stays
    }
    if (mine.id !== photo?.id || large <= pixels) return;
    pixels = large;
    image.src = address;
    element.classList.remove("gone");
    sharpen();
  }

  function move(next) {
    place = next;
    draw();
  }

  const zoomBy = (factor, at = [0, 0]) =>
    photo && move(zoomed(place, place.scale * factor, at, size(), room()));
  const pan = (dx, dy) => photo && move(panned(place, dx, dy, size(), room()));
  const actual = (at = [0, 0]) => photo && move(zoomed(place, 1 / size().fit, at, size(), room()));
  const fit = () => move(whole());

  const fromMiddle = ([x, y]) => [x - element.clientWidth / 2, y - element.clientHeight / 2];
  let tapped = { time: -AGAIN, at: [0, 0] };

  watchGestures(element, {
    pan,
    zoom: (factor, at) => zoomBy(factor, fromMiddle(at)),
    drag: (dx, dy) => place.scale > 1 && pan(dx, dy),
    lift(at, { event, start, far, alone }) {
      if (!alone) return;
      const [dx, dy] = [at[0] - start[0], at[1] - start[1]];
      const swiped = Math.abs(dx) > SWIPE && Math.abs(dx) > 1.5 * Math.abs(dy);
      if (far <= TAP) tap(at, event.timeStamp);
      else if (event.pointerType !== "mouse" && place.scale === 1 && swiped) swipe(dx < 0 ? 1 : -1);
    },
  });

  function tap(at, time) {
    const twice = time - tapped.time < AGAIN && distance(at, tapped.at) < 3 * TAP;
    tapped = { time: twice ? -AGAIN : time, at };
    if (!twice) return;
    if (place.scale > 1) fit();
    else zoomBy(CLOSER, fromMiddle(at));
  }
  new ResizeObserver(() => photo && pan(0, 0)).observe(element);

  return {
    element,
    /** Shows a photo; `small`: the address of a picture that the browser has already. */
    show(next, small) {
      const same = photo?.id === next?.id;
      photo = next;
      element.classList.remove("gone");
      if (!same) {
        place = whole();
        pixels = 0;
        asked = new Set();
        image.removeAttribute("src");
        if (small) image.src = small;
      }
      image.alt = next?.name ?? "";
      draw();
    },
    closer: () => zoomBy(STEP),
    farther: () => zoomBy(1 / STEP),
    fit,
    actual,
    /** Moves what one sees by a step to the right and down. */
    look: (right, down) => pan(-right * PAN, -down * PAN),
  };
}
