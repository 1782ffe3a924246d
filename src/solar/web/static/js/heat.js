// Draws maps of attention and of evidence: a number a cell becomes a smooth, coloured picture.

import { AGAINST, EMBER, FOR } from "./colours.js";

const LONGER = 360;

/**
 * Draws a map on a canvas that lies on the whole photo.
 * @param {object} map An answer of the server: row, rows, columns, extent.
 * @param {{width: number, height: number}} photo
 */
export function drawHeat(canvas, map, photo) {
  const [across, down] = map.extent ?? [map.columns, map.rows];
  const edges = (cells, all, whole) =>
    Array.from({ length: cells + 1 }, (_, at) => (at * whole) / all);
  const low = Math.min(...map.row);
  const range = Math.max(...map.row) - low || 1;
  const { width, height } = photo;
  const columns = edges(map.columns, across, width);
  const rows = edges(map.rows, down, height);
  paint(canvas, { rows, columns, width, height }, map.row, (value) => [
    ...EMBER[Math.round((255 * (value - low)) / range)],
    255,
  ]);
}

/** What a pixel of each region adds: heat by area. */
export function density({ rows, columns }, heat) {
  const wide = columns.length - 1;
  return heat.map((value, at) => {
    const [r, c] = [Math.floor(at / wide), at % wide];
    return value / ((rows[r + 1] - rows[r]) * (columns[c + 1] - columns[c]));
  });
}

/** How strong evidence is at its brightest; the few regions that are far stronger look alike. */
export function brightest(...densities) {
  const all = Float64Array.from(densities.flat(), Math.abs).sort();
  return all[Math.floor(0.99 * (all.length - 1))];
}

/**
 * Draws evidence on a canvas that lies on the whole photo: for the match in one colour, against it
 * in another, as opaque as it is strong.
 * @param {{rows: number[], columns: number[], width: number, height: number}} photo With the edges
 *   of its regions in pixels.
 * @param {number[]} densities One a region.
 * @param {number} most What is opaque.
 */
export function drawEvidence(canvas, photo, densities, most) {
  paint(canvas, photo, densities, (value) => [
    ...(value > 0 ? FOR : AGAINST),
    255 * Math.min(1, Math.abs(value) / (most || 1)),
  ]);
}

/** Colours a canvas by values of regions, linear between their middles. */
function paint(canvas, photo, values, colourOf) {
  const scale = LONGER / Math.max(photo.width, photo.height);
  canvas.width = Math.max(1, Math.round(photo.width * scale));
  canvas.height = Math.max(1, Math.round(photo.height * scale));
  const context = canvas.getContext("2d");
  const picture = context.createImageData(canvas.width, canvas.height);
  const down = between(photo.rows, canvas.height, photo.height);
  const across = between(photo.columns, canvas.width, photo.width);
  const wide = photo.columns.length - 1;
  for (let y = 0, at = 0; y < canvas.height; y++) {
    const [r, below, v] = down[y];
    for (let x = 0; x < canvas.width; x++, at += 4) {
      const [c, right, u] = across[x];
      if (r < 0 || c < 0) continue;
      const upper = values[r * wide + c] * (1 - u) + values[r * wide + right] * u;
      const lower = values[below * wide + c] * (1 - u) + values[below * wide + right] * u;
      picture.data.set(colourOf(upper * (1 - v) + lower * v), at);
    }
  }
  context.putImageData(picture, 0, 0);
}

/** For each pixel the regions whose middles it lies between, and how far; -1 outside of all. */
function between(edges, count, whole) {
  const last = edges.length - 2;
  const middles = edges.slice(1).map((edge, at) => (edge + edges[at]) / 2);
  let next = 0;
  return Array.from({ length: count }, (_, pixel) => {
    const place = ((pixel + 0.5) * whole) / count;
    if (place < edges[0] || place > edges.at(-1)) return [-1, -1, 0];
    while (next <= last && middles[next] < place) next++;
    if (next === 0 || next > last) return [Math.min(next, last), Math.min(next, last), 0];
    return [next - 1, next, (place - middles[next - 1]) / (middles[next] - middles[next - 1])];
  });
}

/** Draws the colours from little to much, as a legend. */
export function drawLegend(canvas) {
  canvas.width = 256;
  canvas.height = 1;
  const context = canvas.getContext("2d");
  EMBER.forEach((colour, x) => {
    context.fillStyle = `rgb(${colour.join(" ")})`;
    context.fillRect(x, 0, 1, 1);
  });
}
