// Panning and zooming over a unit square. Pure functions on {x, y, scale}.

export const FARTHEST = 0.6;
export const CLOSEST = 400;
const MARGIN = 48;

/** How the whole square is seen in a window of this size. */
export function fitted(width, height) {
  const scale = Math.max(80, Math.min(width, height) - 2 * MARGIN);
  // A wide window is used: the square may be stretched up to what is there.
  const across = Math.max(scale, Math.min(width - 2 * MARGIN, 2 * scale));
  return { x: (width - across) / 2, y: (height - scale) / 2, scale: 1, across, down: scale };
}

export const toScreen = (camera, { x, y }) => [
  camera.x + x * camera.across * camera.scale,
  camera.y + y * camera.down * camera.scale,
];

export const panned = (camera, dx, dy) => ({ ...camera, x: camera.x + dx, y: camera.y + dy });

/** Zoomed by a factor around a place of the window, which stays where it is. */
export function zoomed(camera, factor, [atX, atY]) {
  const scale = Math.min(Math.max(camera.scale * factor, FARTHEST), CLOSEST);
  const by = scale / camera.scale;
  return { ...camera, scale, x: atX - (atX - camera.x) * by, y: atY - (atY - camera.y) * by };
}

/** The point nearest to a place of the window, within a distance; null where there is none. */
export function nearest(camera, points, [atX, atY], within) {
  let best = null;
  let least = within ** 2;
  for (const point of points) {
    const [x, y] = toScreen(camera, point);
    const distance = (x - atX) ** 2 + (y - atY) ** 2;
    if (distance < least) [best, least] = [point, distance];
  }
  return best;
}

/** The next point from one in a direction [dx, dy]: near, and not too far to the side. */
export function neighbour(camera, points, from, [dx, dy]) {
  const [fromX, fromY] = toScreen(camera, from);
  let best = null;
  let least = Infinity;
  for (const point of points) {
    const [x, y] = toScreen(camera, point);
    const along = (x - fromX) * dx + (y - fromY) * dy;
    const aside = Math.abs((x - fromX) * dy) + Math.abs((y - fromY) * dx);
    if (along > 0.5 && along + 2 * aside < least) [best, least] = [point, along + 2 * aside];
  }
  return best;
}
