// Links that last. The address of the page has numbers of photos, which another server may give to
// others; a link that is copied also has their names, as "p17=rome/12.jpg".

import { get } from "../api.js";
import { copy } from "../files.js";
import { notify, telling } from "../notice.js";
import { photo } from "../photos.js";
import * as route from "../route.js";

const PINNED = /^p(\d+)$/;
const UPLOADED =
  "An uploaded photo cannot be part of a link, because the server does not keep it. Search with " +
  "a photo of the collection, or with words.";

/** Ids of all photos in the parameters of an address. */
function ids({ q, and, like, unlike }) {
  const listed = [and, like, unlike].flatMap((text) => (text ?? "").split(","));
  const all = [q, ...listed.map((one) => one.split(".")[0])];
  return [...new Set(all.filter(Boolean))];
}

/** What changes in the parameters of an address once some photos, by id, are gone. */
export function without(params, gone) {
  const left = (text) => text.split(",").filter((one) => !gone.has(one.split(".")[0]));
  const lists = ["and", "like", "unlike"].filter((name) => params[name]);
  const all = lists.map((name) => [name, left(params[name]).join(",")]);
  return Object.fromEntries(all.filter(([name, text]) => text !== params[name]));
}

/** Copies a link to a search, which finds its photos by name, too. */
export const copyLink = telling(async (params) => {
  const used = ids(params);
  if (used.some((id) => id.startsWith("q-"))) throw new Error(UPLOADED);
  const known = await Promise.all(used.map(photo));
  const names = Object.fromEntries(used.map((id, at) => [`p${id}`, known[at].name]));
  const [page] = location.href.split("#");
  const done = await copy(page + route.address("search", [], { ...params, ...names }));
  if (!done) throw new Error("The browser does not allow copying: take the page's address.");
  notify("Link copied.");
});

/** Whether an address has names of photos. */
export const pinned = (params) => Object.keys(params).some((name) => PINNED.test(name));

/** The parameters of an address with the numbers that its photos have now. */
export async function resolved(params) {
  const names = Object.entries(params).filter(([name]) => PINNED.test(name));
  const query = new URLSearchParams(names.map(([, value]) => ["name", value]));
  const { photos } = await get(`/photos?${query}`);
  const now = new Map(photos.map((one) => [one.name, one.id]));
  const moved = new Map();
  for (const [name, value] of names) {
    if (!now.has(value)) throw new Error(`${value} is no longer in this collection.`);
    moved.set(PINNED.exec(name)[1], now.get(value));
  }
  return { ...unpinned(params), ...renumbered(params, moved) };
}

const unpinned = (params) =>
  Object.fromEntries(Object.entries(params).filter(([name]) => !PINNED.test(name)));

function renumbered({ q, and, like, unlike }, moved) {
  const one = (text) => {
    const [id, ...box] = text.split(".");
    return [moved.get(id) ?? id, ...box].join(".");
  };
  const each = (text) => text && text.split(",").map(one).join(",");
  const found = { q: q && (moved.get(q) ?? q), and: each(and), like: each(like), unlike: each(unlike) };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value));
}
