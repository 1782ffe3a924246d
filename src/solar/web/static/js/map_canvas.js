// Draws the map: dots from afar, photos from near.

import { toScreen } from "./camera.js";

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
  if (seen > MOST_PICTURES) return 0;
  return Math.min(112, Math.max(40, 0.55 * Math.sqrt((width * height) / Math.max(seen, 1))));
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {object} scene camera, points (those seen), size of photos or 0, picture(id), chosen, colours.
 */
export function drawMap(canvas, { camera, points, size, picture, chosen, colours }) {
  const ratio = devicePixelRatio || 1;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  const radius = Math.min(6, Math.max(1.5, 60 / Math.sqrt(points.length)));
  for (const point of points) {
    const [x, y] = toScreen(camera, point);
    const image = size ? picture(point.id) : null;
    if (image) drawPicture(context, image, x, y, size, colours.line);
    else dot(context, x, y, radius, colours.dot);
  }
  if (chosen)
    mark(
      context,
      toScreen(camera, chosen),
      size ? picture(chosen.id) : null,
      size,
      radius,
      colours,
    );
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
  context.strokeStyle = line;
  context.lineWidth = 1;
  context.beginPath();
  context.roundRect(...place, 5);
  context.stroke();
}

function mark(context, [x, y], image, size, radius, colours) {
  context.strokeStyle = colours.accent;
  context.lineWidth = MARK;
  context.beginPath();
  if (image) {
    drawPicture(context, image, x, y, 1.12 * size, colours.line);
    context.strokeStyle = colours.accent;
    context.lineWidth = MARK;
    context.beginPath();
    context.roundRect(...frame(image, x, y, 1.12 * size), 5);
  } else {
    context.arc(x, y, radius + 4, 0, 7);
  }
  context.stroke();
}
