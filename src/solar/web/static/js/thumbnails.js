// Pictures for a canvas: asked for a few at a time, those wanted last first.

const AT_ONCE = 6;
const KEPT = 600;
const WIDE = 160; // the smallest that the server makes

/** @param {function()} arrived Called when another picture can be drawn. */
export function thumbnails(arrived) {
  const pictures = new Map();
  let wanted = [];
  let loading = 0;

  async function load({ id, thumbnail }) {
    loading += 1;
    const image = new Image();
    pictures.set(id, { image, ready: false });
    try {
      image.src = thumbnail.replace(/\bw=\d+/, `w=${WIDE}`);
      await image.decode();
      pictures.get(id).ready = true;
      arrived();
    } catch {
      // A photo that cannot be shown stays a dot.
    }
    loading -= 1;
    next();
  }

  function next() {
    while (loading < AT_ONCE && wanted.length) {
      const point = wanted.shift();
      if (!pictures.has(point.id)) load(point);
    }
    for (const id of pictures.keys()) {
      if (pictures.size <= KEPT) break;
      pictures.delete(id);
    }
  }

  return {
    /** The picture of a photo, or null while it is not there. */
    get: (id) => (pictures.get(id)?.ready ? pictures.get(id).image : null),
    /** Says which ones would be drawn now. */
    want(points) {
      wanted = points.filter(({ id }) => !pictures.has(id));
      next();
    },
  };
}
