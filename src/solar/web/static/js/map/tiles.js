// Map tiles behind the photos of the world: squares of Web Mercator by zoom, column and row.

import { pictures } from "../pictures.js";

const SIDE = 256;
const DEEPEST = 19; // the last zoom that public servers have

/** How far to zoom in on a map that is so wide: until streets are told apart. */
export const closest = (width) => (SIDE * 2 ** 18) / width;

/**
 * @param {string} template The address of a tile, with {z}, {x} and {y}.
 * @param {function()} arrived Called when another tile can be drawn.
 */
export function worldTiles(template, arrived) {
  const addressOf = ({ zoom, x, y }) =>
    template.replaceAll("{z}", zoom).replaceAll("{x}", x).replaceAll("{y}", y);
  // Public servers answer only those who say where they come from.
  const tiles = pictures(arrived, addressOf, "origin");
  const tile = (zoom, x, y) => ({ id: `${zoom}/${x}/${y}`, zoom, x, y });

  /** Draws the tile, or until it is there its part of a larger one. */
  function place(context, { zoom, x, y }, left, top, right, bottom) {
    for (let up = 0; up <= zoom; up++) {
      const image = tiles.get(tile(zoom - up, x >> up, y >> up).id);
      if (!image) continue;
      const part = image.naturalWidth / 2 ** up;
      const from = [(x % 2 ** up) * part, (y % 2 ** up) * part];
      context.drawImage(image, ...from, part, part, left, top, right - left, bottom - top);
      return;
    }
  }

  return {
    /** Draws what is there of the part of the world in the window, and asks for the rest. */
    draw(context, camera, width, height) {
      const world = camera.across * camera.scale;
      const zoom = Math.min(Math.max(Math.round(Math.log2(world / SIDE)), 0), DEEPEST);
      const side = world / 2 ** zoom;
      const first = (from) => Math.max(0, Math.floor(-from / side));
      const end = (from, room) => Math.min(2 ** zoom, Math.ceil((room - from) / side));
      const seen = [];
      for (let y = first(camera.y); y < end(camera.y, height); y++)
        for (let x = first(camera.x); x < end(camera.x, width); x++) seen.push(tile(zoom, x, y));
      tiles.want(seen);
      // Whole pixels leave no seams.
      const edge = (from, at) => Math.round(from + at * side);
      for (const one of seen) {
        const corner = [edge(camera.x, one.x), edge(camera.y, one.y)];
        place(context, one, ...corner, edge(camera.x, one.x + 1), edge(camera.y, one.y + 1));
      }
    },
  };
}
