// Pictures for a canvas: asked for a few at a time, those wanted last first.

const AT_ONCE = 6;
const KEPT = 600;

/**
 * @param {function()} arrived Called when another picture can be drawn.
 * @param {function(object): string} addressOf The address of what has an `id`.
 * @param {string} referrer What the server is told of this page.
 */
export function pictures(arrived, addressOf, referrer = "no-referrer") {
  const known = new Map();
  let wanted = [];
  let loading = 0;

  async function load(one) {
    loading += 1;
    const image = new Image();
    known.set(one.id, { image, ready: false });
    try {
      image.referrerPolicy = referrer;
      image.src = addressOf(one);
      await image.decode();
      known.get(one.id).ready = true;
      arrived();
    } catch {
      // What cannot be shown is left out.
    }
    loading -= 1;
    next();
  }

  function next() {
    while (loading < AT_ONCE && wanted.length) {
      const one = wanted.shift();
      if (!known.has(one.id)) load(one);
    }
    for (const id of known.keys()) {
      if (known.size <= KEPT) break;
      known.delete(id);
    }
  }

  return {
    /** The picture of an id, or null while it is not there. */
    get: (id) => (known.get(id)?.ready ? known.get(id).image : null),
    /** Says which ones would be drawn now. */
    want(these) {
      wanted = these.filter(({ id }) => !known.has(id));
      next();
    },
  };
}
