// Draws an attention map: a number a cell becomes a smooth, coloured picture.

import { EMBER } from "./colours.js";

const LONGER = 360;

/** The values at a place between cells, bilinear; `x` and `y` in cells, from the first one's middle. */
function sample({ row, rows, columns }, x, y) {
  const [left, top] = [Math.min(Math.max(x, 0), columns - 1), Math.min(Math.max(y, 0), rows - 1)];
  const [c, r] = [Math.floor(left), Math.floor(top)];
  const [right, below] = [Math.min(c + 1, columns - 1), Math.min(r + 1, rows - 1)];
  const [u, v] = [left - c, top - r];
  const upper = row[r * columns + c] * (1 - u) + row[r * columns + right] * u;
  const lower = row[below * columns + c] * (1 - u) + row[below * columns + right] * u;
  return upper * (1 - v) + lower * v;
}

/**
 * Draws a map on a canvas that lies on the whole photo.
 * @param {object} map An answer of the server: row, rows, columns, extent.
 * @param {{width: number, height: number}} photo
 */
export function drawHeat(canvas, map, photo) {
  const scale = LONGER / Math.max(photo.width, photo.height);
  canvas.width = Math.max(1, Math.round(photo.width * scale));
  canvas.height = Math.max(1, Math.round(photo.height * scale));
  const [acrossAll, downAll] = map.extent ?? [map.columns, map.rows];
  const low = Math.min(...map.row);
  const range = Math.max(...map.row) - low || 1;
  const context = canvas.getContext("2d");
  const picture = context.createImageData(canvas.width, canvas.height);
  for (let y = 0, at = 0; y < canvas.height; y++) {
    const down = ((y + 0.5) / canvas.height) * downAll - 0.5;
    for (let x = 0; x < canvas.width; x++, at += 4) {
      const across = ((x + 0.5) / canvas.width) * acrossAll - 0.5;
      const level = (sample(map, across, down) - low) / range;
      const [red, green, blue] = EMBER[Math.round(255 * level)];
      picture.data[at] = red;
      picture.data[at + 1] = green;
      picture.data[at + 2] = blue;
      picture.data[at + 3] = 255;
    }
  }
  context.putImageData(picture, 0, 0);
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
