// Answers of the server that are kept for a while, each asked for once.

// Addresses of pictures may be signed for an hour.
const FRESH = 30 * 60 * 1000;

/**
 * @param {function(*): Promise} ask Gets the answer for a key.
 * @param {number} most So many are kept.
 */
export function fresh(ask, most = Infinity) {
  const known = new Map();
  return {
    /** The answer for a key, as a promise; one that failed is asked for again. */
    get(key) {
      const kept = known.get(key);
      if (kept && Date.now() - kept.since < FRESH) return kept.promise;
      const promise = ask(key);
      known.set(key, { promise, since: Date.now() });
      promise.catch(() => known.delete(key));
      if (known.size > most) known.delete(known.keys().next().value);
      return promise;
    },
    forget: () => known.clear(),
  };
}
