// A plain outline of the world to put photos on, and where on it a position is (Mercator).

// Units of the outline in index.html, from west to east.
const AROUND = 3600;

/** Where a position is on the map, from 0 to 1 to the right and down. */
export function onWorld([north, east]) {
  const angle = (Math.min(Math.max(north, -84), 84) * Math.PI) / 180;
  const up = Math.log(Math.tan(Math.PI / 4 + angle / 2)) / (2 * Math.PI);
  return { x: (east + 180) / 360, y: 0.5 - up };
}

/** Draws the outline in the ink of the page, faint. */
export function drawWorld(context, { x, y, across, down, scale }, ink) {
  const outline = new Path2D(document.querySelector("#world path").getAttribute("d"));
  const size = [(across * scale) / AROUND, (down * scale) / AROUND];
  const placed = new Path2D();
  placed.addPath(outline, new DOMMatrix([size[0], 0, 0, size[1], x, y]));
  context.save();
  context.strokeStyle = context.fillStyle = ink;
  context.globalAlpha = 0.06;
  context.fill(placed);
  context.globalAlpha = 0.35;
  context.stroke(placed);
  context.restore();
}
