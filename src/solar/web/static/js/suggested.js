// Boxes that are worth searching with: where most of what a model sees in a photo lies.

import { post } from "./api.js";

// Of all that a photo says to the model.
const MOST = 0.6;
const SECOND = 0.25;
// Of the photo: a larger box would say nothing new.
const LARGEST = 0.7;

/** One or two boxes of a photo, as a promise; none where the model cannot tell. */
export async function suggestedBoxes(id, model, signal) {
  const { a } = await post("/why", { a: id, b: id, model: model || undefined }, { signal });
  const heat = a.heat.map((value) => Math.max(0, value));
  const all = heat.reduce((sum, value) => sum + value, 0);
  const found = [];
  for (const least of [MOST, SECOND]) {
    const box = smallest(a, heat, least * all);
    if (!box) break;
    const [left, top, right, bottom] = box.edges;
    const part = ((right - left) * (bottom - top)) / (a.width * a.height);
    if (part > LARGEST) break;
    found.push(box.edges);
    for (const at of box.cells) heat[at] = 0; // the next one lies beside it
  }
  return found;
}

/** The smallest box of whole regions with at least so much heat. */
function smallest({ rows, columns }, heat, least) {
  const wide = columns.length - 1;
  let best = null;
  for (let top = 0; top < rows.length - 1; top++) {
    const sums = new Array(wide).fill(0);
    for (let bottom = top; bottom < rows.length - 1; bottom++) {
      for (let at = 0; at < wide; at++) sums[at] += heat[bottom * wide + at];
      const high = rows[bottom + 1] - rows[top];
      for (let left = 0, right = 0, sum = 0; left < wide; sum -= sums[left++]) {
        while (right < wide && sum < least) sum += sums[right++];
        if (sum < least || right <= left) break;
        const area = high * (columns[right] - columns[left]);
        if (!best || area < best.area) best = { area, left, top, right, bottom: bottom + 1 };
      }
    }
  }
  if (!best || least <= 0) return null;
  const { left, top, right, bottom } = best;
  const cells = heat.flatMap((_, at) => {
    const [row, column] = [Math.floor(at / wide), at % wide];
    return row >= top && row < bottom && column >= left && column < right ? [at] : [];
  });
  return { edges: [columns[left], rows[top], columns[right], rows[bottom]], cells };
}
