// One photo laid over another, by a homography in parts of their sizes, 0 to 1.

const IDENTITY = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];

/** A pair with the photo that comes first in its group as a, which is shown on the left. */
export function ordered(pair) {
  if (pair.a <= pair.b) return pair;
  const covers = pair.covers?.toReversed();
  const mapping = pair.mapping && inverse(pair.mapping);
  return { ...pair, a: pair.b, b: pair.a, covers, mapping };
}

/** Which photo of a pair is the ground, and the homography that lays the other one over it. */
export function alignment({ mapping, covers, kind }) {
  const found = mapping ?? (kind === "exact" ? IDENTITY : null);
  if (!found) return null;
  // A crop lies on the whole photo: of that one, less is covered.
  const [ground, over] = covers && covers[1] < covers[0] ? ["b", "a"] : ["a", "b"];
  const matrix = ground === "a" ? inverse(found) : found;
  return matrix && { ground, over, matrix: scaled(matrix) };
}

/** The inverse of a 3 × 3 matrix, up to its scale; null where there is none. */
function inverse([[a, b, c], [d, e, f], [g, h, i]]) {
  const determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g);
  if (!Number.isFinite(determinant) || Math.abs(determinant) < 1e-12) return null;
  return [
    [e * i - f * h, c * h - b * i, b * f - c * e],
    [f * g - d * i, a * i - c * g, c * d - a * f],
    [d * h - e * g, b * g - a * h, a * e - b * d],
  ].map((row) => row.map((value) => value / determinant));
}

/** The same homography with depth 1 in the middle of the photo: browsers hide what is behind. */
function scaled(matrix) {
  const depth = matrix[2][0] / 2 + matrix[2][1] / 2 + matrix[2][2];
  return Math.abs(depth) < 1e-9 ? matrix : matrix.map((row) => row.map((value) => value / depth));
}

/** A homography as a CSS transform of an element of so many pixels, from its upper left corner. */
export function transform([[a, b, c], [d, e, f], [g, h, i]], width, height) {
  const columns = [
    [a, (d * height) / width, 0, g / width],
    [(b * width) / height, e, 0, h / height],
    [0, 0, 1, 0],
    [c * width, f * height, 0, i],
  ];
  return `matrix3d(${columns.flat().join(", ")})`;
}

/** Where the corners of the upper photo are on the ground, in parts of its size. */
export const corners = (matrix) =>
  [
    [0, 0],
    [1, 0],
    [1, 1],
    [0, 1],
  ].map(([x, y]) => {
    const [u, v, depth] = matrix.map((row) => row[0] * x + row[1] * y + row[2]);
    return [u / depth, v / depth];
  });
