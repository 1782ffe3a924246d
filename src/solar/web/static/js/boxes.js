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
export function moved([x1, y1, x2, y2], dx, dy, { width, height }) {
  const right = clamp(dx, -x1, width - x2);
  const down = clamp(dy, -y1, height - y2);
  return [x1 + right, y1 + down, x2 + right, y2 + down];
}

/**
 * The box with some edges moved; no edge passes the opposite one or leaves the photo.
 * @param {string} edges Which: letters out of "nesw".
 */
export function resized([x1, y1, x2, y2], edges, dx, dy, { width, height }) {
  const least = { x: Math.min(SMALLEST, width), y: Math.min(SMALLEST, height) };
  return [
    edges.includes("w") ? clamp(x1 + dx, 0, x2 - least.x) : x1,
    edges.includes("n") ? clamp(y1 + dy, 0, y2 - least.y) : y1,
    edges.includes("e") ? clamp(x2 + dx, x1 + least.x, width) : x2,
    edges.includes("s") ? clamp(y2 + dy, y1 + least.y, height) : y2,
  ];
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
