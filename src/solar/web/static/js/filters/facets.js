// What there is to filter by; where it is much, also for what somebody types.

import { get } from "../api.js";
import { fresh } from "../fresh.js";

const known = fresh((search) => get(`/facets${search && `?${new URLSearchParams({ search })}`}`));

/** Folders, tags, roots and times of the collection, as a promise; those with a text in the name. */
export const facets = (search = "") => known.get(search);

/** Forgets all: the collection has changed. */
export const forgetFacets = known.forget;
