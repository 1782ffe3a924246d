// Panning and zooming over a map. Pure functions on {x, y, scale, across, down}.

const FARTHEST = 0.6;
// So far apart, in pixels of the window, neighbours lie when nobody can go closer.
const APART = 220;
// Of the window: this far inside it at least one photo stays.
const INSIDE = 0.15;
// Half a photo of the map, which the outermost ones need around them.
const MARGIN = 64;
// So many points tell how far apart all of them lie.
const SAMPLE = 200;

/**
 * How all points fill a window of this size; only what is near what has a meaning, so it may be
 * stretched, unless they are on a map of the world, of which at least a part (`least`) is seen.
 */
export function fitted(points, width, height, least = null) {
  const spread = (values, room) => {
    const low = values.reduce((a, b) => Math.min(a, b), Infinity);
    const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
    const range = Math.max(high - low, least ?? 0);
    const size = range ? (room - 2 * Math.min(MARGIN, 0.12 * room)) / range : 1;
    return { size, from: (own) => room / 2 - ((low + high) / 2) * own };
  };
  const [across, down] = [spread(points.map(({ x }) => x), width), spread(points.map(({ y }) => y), height)];
  const smaller = Math.min(across.size, down.size);
  const sizes = least
    ? { across: smaller, down: smaller }
    : { across: across.size, down: down.size };
  return { x: across.from(sizes.across), y: down.from(sizes.down), scale: 1, ...sizes };
}

/** The same part of the map in a window of another size, for which `fit` shows all of it. */
export function resized(camera, before, fit, now) {
  const middle = (place, room, size) => (room / 2 - place) / (size * camera.scale);
  const x = middle(camera.x, before.width, camera.across) * fit.across * camera.scale;
  const y = middle(camera.y, before.height, camera.down) * fit.down * camera.scale;
  return { ...fit, scale: camera.scale, x: now.width / 2 - x, y: now.height / 2 - y };
}

export const toScreen = (camera, { x, y }) => [
  camera.x + x * camera.across * camera.scale,
  camera.y + y * camera.down * camera.scale,
];

export const panned = (camera, dx, dy) => ({ ...camera, x: camera.x + dx, y: camera.y + dy });

/** The distance from a point to its nearest one, as it is for half of some of the points. */
export function spacing(points) {
  const every = Math.ceil(points.length / SAMPLE);
  const usual = 2 / Math.sqrt(points.length);
  const nearest = points
    .filter((_, at) => at % every === 0)
    .map((point) =>
      points.reduce((least, other) => {
        const far = other === point ? usual : Math.hypot(other.x - point.x, other.y - point.y);
        return Math.min(least, far);
      }, usual),
    );
  return nearest.sort((a, b) => a - b)[nearest.length >> 1] || 1e-4;
}

/** How far to go closer: until photos that lie `spacing` apart on the map fill the window. */
export const closest = (camera, spacing) =>
  Math.max(4, APART / (spacing * Math.min(camera.across, camera.down)));

/** Moved so far that at least one point is well inside the window: a map is never out of sight. */
export function kept(camera, points, width, height) {
  const [dx, dy] = [INSIDE * width, INSIDE * height];
  const beyond = (place, low, high) => (place < low ? low - place : place > high ? high - place : 0);
  let best = [0, 0];
  let least = Infinity;
  for (const point of points) {
    const [x, y] = toScreen(camera, point);
    const way = [beyond(x, dx, width - dx), beyond(y, dy, height - dy)];
    const far = way[0] ** 2 + way[1] ** 2;
    if (far < least) [best, least] = [way, far];
    if (!far) return camera;
  }
  return panned(camera, ...best);
}

/** Zoomed by a factor around a place of the window, which stays where it is. */
export function zoomed(camera, factor, [atX, atY], most = 400) {
  const scale = Math.min(Math.max(camera.scale * factor, FARTHEST), most);
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
