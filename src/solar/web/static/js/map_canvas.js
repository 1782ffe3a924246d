// Draws the map: dots, and photos over them, as many as there is room for.

import { toScreen } from "./camera.js";
import { drawWorld } from "./map/world.js";

const MOST_PICTURES = 120;
const MARK = 3;

/** The points inside the window, and a little around it. */
export function visible(camera, points, width, height) {
  return points.filter((point) => {
    const [x, y] = toScreen(camera, point);
    return x > -60 && y > -60 && x < width + 60 && y < height + 60;
  });
}

/** How wide photos are drawn when so many are seen. */
export function pictureSize(seen, width, height) {
  const shown = Math.min(Math.max(seen, 1), MOST_PICTURES);
  return Math.min(112, Math.max(40, 0.55 * Math.sqrt((width * height) / shown)));
}

/** Those of the points seen that are drawn as photos: all, or of a crowd one in each place. */
export function pictured(camera, seen, size) {
  if (seen.length <= MOST_PICTURES) return seen;
  const side = 1.15 * size;
  const cells = new Map();
  for (const point of seen) {
    const [x, y] = toScreen(camera, point);
    // From the map's corner on, so that a map that is only moved keeps its photos.
    const [across, down] = [(x - camera.x) / side, (y - camera.y) / side];
    const key = `${Math.floor(across)},${Math.floor(down)}`;
    const off = (across - Math.floor(across) - 0.5) ** 2 + (down - Math.floor(down) - 0.5) ** 2;
    if (off < (cells.get(key)?.off ?? Infinity)) cells.set(key, { point, off });
  }
  return [...cells.values()].map(({ point }) => point);
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {object} scene world (whether it is a map of it), tiles behind it, camera, points (those seen), shown (a set of those that are photos), size of
 *   photos, picture(id), chosen, selected (a set), colours, colourOf(point), band (x1, y1, x2, y2).
 */
export function drawMap(canvas, scene) {
  const { camera, points, shown, size, picture, chosen, selected, colours, colourOf, band } = scene;
  const ratio = devicePixelRatio || 1;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (scene.world) drawWorld(context, camera, colours.ink);
  if (scene.tiles) {
    scene.tiles.draw(context, camera, canvas.width / ratio, canvas.height / ratio);
    context.fillStyle = colours.veil;
    context.fillRect(0, 0, canvas.width, canvas.height);
  }
  const radius = Math.min(6, Math.max(1.5, 60 / Math.sqrt(points.length)));
  const imageOf = (point) => (shown.has(point) ? picture(point.id) : null);
  const photos = [];
  for (const point of points) {
    const [x, y] = toScreen(camera, point);
    if (imageOf(point)) photos.push([point, x, y]);
    else dot(context, x, y, selected.has(point) ? radius + 2 : radius, colourOf(point));
  }
  for (const [point, x, y] of photos) drawPicture(context, imageOf(point), x, y, size, colourOf(point));
  for (const point of points) {
    if (!selected.has(point)) continue;
    const [x, y] = toScreen(camera, point);
    edge(context, x, y, imageOf(point), size + 4, radius + 3, colours.ink);
  }
  if (chosen) {
    const [x, y] = toScreen(camera, chosen);
    const image = imageOf(chosen);
    if (image) drawPicture(context, image, x, y, 1.12 * size, colours.accent);
    edge(context, x, y, image, 1.12 * size, radius + 4, colours.accent, MARK);
  }
  if (band) drawBand(context, band, colours.accent);
}

/** A line around a photo of this size, or around its dot. */
function edge(context, x, y, image, size, radius, colour, width = 2) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  if (image) context.roundRect(...frame(image, x, y, size), 5);
  else context.arc(x, y, radius, 0, 7);
  context.stroke();
}

function drawBand(context, [x1, y1, x2, y2], colour) {
  context.save();
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = 1.5;
  context.setLineDash([6, 4]);
  context.strokeRect(x1, y1, x2 - x1, y2 - y1);
  context.globalAlpha = 0.12;
  context.fillRect(x1, y1, x2 - x1, y2 - y1);
  context.restore();
}

function dot(context, x, y, radius, colour) {
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.fill();
}

function frame(image, x, y, size) {
  const part = size / Math.max(image.naturalWidth, image.naturalHeight);
  const [width, height] = [image.naturalWidth * part, image.naturalHeight * part];
  return [x - width / 2, y - height / 2, width, height];
}

function drawPicture(context, image, x, y, size, line) {
  const place = frame(image, x, y, size);
  context.save();
  context.beginPath();
  context.roundRect(...place, 5);
  context.clip();
  context.drawImage(image, ...place);
  context.restore();
  edge(context, x, y, image, size, 0, line);
}
