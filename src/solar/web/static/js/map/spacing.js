// How far apart photos lie on the map, and which of them lie together. Pure functions on points.

/** Points by the cells of a grid; a cell is as wide as asked for. */
function cells(points, side) {
  const found = new Map();
  points.forEach(({ x, y }, at) => {
    const key = `${Math.floor(x / side)},${Math.floor(y / side)}`;
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(at);
  });
  return found;
}

/** Calls `each(other)` for the points in the cell of a point and in those around it. */
function around(grid, { x, y }, side, each) {
  const [column, row] = [Math.floor(x / side), Math.floor(y / side)];
  for (let dx = -1; dx <= 1; dx++)
    for (let dy = -1; dy <= 1; dy++)
      for (const other of grid.get(`${column + dx},${row + dy}`) ?? []) each(other);
}

/** The distance from a point to its nearest one, as it is for half of the points. */
export function spacing(points) {
  const side = 2 / Math.sqrt(Math.max(points.length, 1));
  const grid = cells(points, side);
  const distances = points.map((point, at) => {
    let least = side;
    around(grid, point, side, (other) => {
      if (other === at) return;
      least = Math.min(least, Math.hypot(points[other].x - point.x, points[other].y - point.y));
    });
    return least;
  });
  return distances.sort((a, b) => a - b)[distances.length >> 1] || 1e-4;
}

/**
 * Which points lie together: those that can be reached in steps of at most `step`.
 * @returns {number[]} The group of each point; the largest is 0.
 */
export function grouped(points, step) {
  const grid = cells(points, step);
  const parent = points.map((_, at) => at);
  const top = (at) => {
    while (parent[at] !== at) at = parent[at] = parent[parent[at]];
    return at;
  };
  points.forEach((point, at) =>
    around(grid, point, step, (other) => {
      const near = Math.hypot(points[other].x - point.x, points[other].y - point.y) <= step;
      if (near) parent[top(other)] = top(at);
    }),
  );
  const sizes = new Map();
  for (const at of parent.keys()) sizes.set(top(at), (sizes.get(top(at)) ?? 0) + 1);
  const order = [...sizes].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([root]) => root);
  const names = new Map(order.map((root, number) => [root, number]));
  return points.map((_, at) => names.get(top(at)));
}
