// The geometry of boxes [x1, y1, x2, y2] in pixels of a photo. Pure functions.

const SMALLEST = 8;

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** The box between two corners, inside the photo. */
export function between([xa, ya], [xb, yb], { width, height }) {
  return [
    clamp(Math.min(xa, xb), 0, width),
    clamp(Math.min(ya, yb), 0, height),
    clamp(Math.max(xa, xb), 0, width),
    clamp(Math.max(ya, yb), 0, height),
  ];
}

/** The box moved, as far as the photo allows. */
export function moved([x1, y1, x2, y2], dx, dy, photo) {
  const right = clamp(dx, -x1, photo.width - x2);
  const down = clamp(dy, -y1, photo.height - y2);
  return between([x1 + right, y1 + down], [x2 + right, y2 + down], photo);
}

/**
 * The box with some edges moved; no edge passes the opposite one or leaves the photo.
 * @param {string} edges Which: letters out of "nesw".
 */
export function resized([x1, y1, x2, y2], edges, dx, dy, photo) {
  const least = { x: Math.min(SMALLEST, photo.width), y: Math.min(SMALLEST, photo.height) };
  const west = edges.includes("w") ? Math.min(x1 + dx, x2 - least.x) : x1;
  const north = edges.includes("n") ? Math.min(y1 + dy, y2 - least.y) : y1;
  const east = edges.includes("e") ? Math.max(x2 + dx, x1 + least.x) : x2;
  const south = edges.includes("s") ? Math.max(y2 + dy, y1 + least.y) : y2;
  // Last, because a sum of edges can be outside by its rounding.
  return between([west, north], [east, south], photo);
}

/** The middle of a photo, as a box to begin with. */
export const central = ({ width, height }) => [
  0.25 * width,
  0.25 * height,
  0.75 * width,
  0.75 * height,
];

export const isLargeEnough = ([x1, y1, x2, y2]) => x2 - x1 >= SMALLEST && y2 - y1 >= SMALLEST;

/** A box for an address: "12,30,140,99". */
export const written = (box) => box && box.map(Math.round).join(",");

/** A box from an address, or null where that says none. */
export function read(text) {
  const box = (text ?? "").split(",").map(Number);
  const whole = box.length === 4 && box.every(Number.isFinite);
  return whole && box[0] < box[2] && box[1] < box[3] ? box : null;
}
