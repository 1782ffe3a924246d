// What there is to filter by, asked once; where it is much, also for what somebody types.

import { get } from "../api.js";

const known = new Map();

/** Folders, tags, roots and times of the collection, as a promise; those with a text in the name. */
export function facets(search = "") {
  if (!known.has(search)) {
    const query = search && `?${new URLSearchParams({ search })}`;
    const promise = get(`/facets${query}`);
    known.set(search, promise);
    promise.catch(() => known.delete(search));
  }
  return known.get(search);
}

/** Forgets all: the collection has changed. */
export const forgetFacets = () => known.clear();
