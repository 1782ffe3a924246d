// What the server knows of photos.

import { get } from "./api.js";
import { fresh } from "./fresh.js";

const known = fresh((id) => get(`/photos/${encodeURIComponent(id)}`));

/** A photo by its id, as a promise. */
export const photo = known.get;

/** Forgets all: the collection has changed. */
export const forgetPhotos = known.forget;
