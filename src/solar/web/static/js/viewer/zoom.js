// Where a photo is on the stage: how large, and how far from the middle.

const MOST = 8;
// Small photos are not blown up further than this to fill the stage.
const LARGEST_FIT = 4;

/** Pixels of the page per pixel of the photo where the whole photo fits the stage. */
export const fitted = (photo, stage) =>
  Math.min(stage.width / photo.width, stage.height / photo.height, LARGEST_FIT);

/** The whole photo, in the middle; `scale` counts from here. */
export const whole = () => ({ scale: 1, x: 0, y: 0 });

/** The largest scale: eight times the whole photo, or four pixels of the page for one of its own. */
export const largest = (fit) => Math.max(MOST, 4 / fit);

/** Another scale with the point `at`, counted from the middle of the stage, staying where it is. */
export function zoomed(place, scale, [x, y], size, stage) {
  const next = Math.min(Math.max(scale, 1), largest(size.fit));
  const factor = next / place.scale;
  const moved = { scale: next, x: x - (x - place.x) * factor, y: y - (y - place.y) * factor };
  return inside(moved, size, stage);
}

export const panned = (place, dx, dy, size, stage) =>
  inside({ ...place, x: place.x + dx, y: place.y + dy }, size, stage);

/** A photo larger than the stage covers it, a smaller one is in its middle. */
function inside({ scale, x, y }, { width, height }, stage) {
  const reach = (length, room) => Math.max(0, (length * scale - room) / 2);
  const within = (value, most) => Math.min(Math.max(value, -most), most);
  return {
    scale,
    x: within(x, reach(width, stage.width)),
    y: within(y, reach(height, stage.height)),
  };
}
