// What the server knows of photos, asked once.

import { get } from "./api.js";

// Addresses of pictures may be signed for an hour.
const FRESH = 30 * 60 * 1000;
const known = new Map();

/** A photo by its id, as a promise. */
export function photo(id) {
  const kept = known.get(id);
  if (kept && Date.now() - kept.since < FRESH) return kept.promise;
  const promise = get(`/photos/${encodeURIComponent(id)}`);
  known.set(id, { promise, since: Date.now() });
  promise.catch(() => known.delete(id));
  return promise;
}

/** Forgets all: the collection has changed. */
export const forgetPhotos = () => known.clear();
