// Albums: groups of photos of the same place, and the photos of one of them.

import { get, post } from "../api.js";
import { cover } from "../albums/cover.js";
import { exportButtons } from "../albums/exporting.js";
import { card } from "../card.js";
import { button, el, linkButton, viewHead } from "../dom.js";
import { endless } from "../endless.js";
import { createGrid } from "../grid.js";
import { nothing, telling } from "../notice.js";
import { ways } from "../ways.js";
import { count, counted } from "../words.js";
import { remade } from "./remade.js";

const COVERS = 40;
const PHOTOS = 60;

// The album that was open last: who comes back from it goes on there.
let opened = null;

/** Makes the view in `root`. */
export const albums = (root, shared) =>
  remade(root, "Albums", ({ parts: [id] }) => id, ({ parts: [id], again }) =>
    id ? openAlbum(root, shared, id) : listAlbums(root, shared, again ? opened : null),
  );

/** All albums, the largest first. */
function listAlbums(root, { info }, last) {
  const note = el("p.facts", { role: "status" }, "Opening the albums…");
  const empty = el("div");
  const old = el("p.outdated", { hidden: true });
  const grid = createGrid("Albums", cover);
  grid.element.classList.add("album-grid");
  grid.remember(last);
  const list = paged(grid, async (offset, signal) => {
    const page = await get(`/albums?offset=${offset}&limit=${COVERS}`, { signal });
    note.textContent = `${counted(page.total, "album")} with ${count(page.grouped)} of ${counted(page.photos, "photo")}.`;
    old.hidden = !page.outdated;
    old.textContent = outdated(page.photos, info.photos, "solar groups");
    if (!page.total) empty.replaceChildren(nothing("No two photos show the same place."));
    return [page.albums, page.total];
  });
  root.append(
    el(
      "div.albums",
      {},
      viewHead("Albums", note, exportButtons(info.name)),
      old,
      grid.element,
      empty,
      list.element,
    ),
  );
  return started(grid, list);
}

/** The photos of one album, those that belong to it most surely first. */
function openAlbum(root, { info }, id) {
  opened = id;
  const note = el("p.facts", { role: "status" }, "Opening the album…");
  const title = el("h1.view-title", {}, "Album");
  const rename = telling(async () => {
    const name = prompt("The name of the album; empty for that of its folder", title.textContent);
    if (name === null) return;
    title.textContent = (await post(`/albums/${encodeURIComponent(id)}/name`, { name })).name;
  });
  const renaming = info.settings.writable && button("Rename", { on: rename });
  const tools = [renaming, exportButtons(info.name, id)].filter(Boolean);
  const details = el("p.facts");
  const grid = createGrid("Photos of the album", (photo) => albumPhoto(photo, info));
  const list = paged(grid, async (offset, signal) => {
    const query = `offset=${offset}&limit=${PHOTOS}`;
    const asked = get(`/albums/${encodeURIComponent(id)}?${query}`, { signal });
    const album = await asked.catch((error) => {
      for (const one of [note, ...tools]) one.remove(); // of an album that there is none
      throw error;
    });
    note.textContent = counted(album.count, "photo");
    title.textContent = album.name;
    details.textContent = `${counted(album.links, "pair")} with matching details; a photo matches ${Math.round(100 * album.agreement)} % of the others on average.`;
    return [album.photos, album.count];
  });
  root.append(
    el(
      "div.albums",
      {},
      viewHead(linkButton("All albums", "#/albums", "back"), title, note, ...tools),
      el("div", {}, grid.element),
      list.element,
      el("details.search-details", {}, el("summary", {}, "Details"), details),
    ),
  );

  return started(grid, list);
}

function started(grid, list) {
  list.start();
  return { leave: list.stop, keys: { ArrowDown: grid.focus, ArrowRight: grid.focus } };
}

/** Says that a report was made of other photos than there are now. */
export const outdated = (then, now, command) =>
  `Made of ${counted(then, "photo")}; the collection has ${count(now)} now. Run “${command}” again to bring this up to date.`;

function albumPhoto(photo, info) {
  if (!photo.id) {
    const place = el("a.card-main", { tabindex: "-1" }); // no link, but arrows go on from it
    return el("li.card.gone", {}, place, el("div.card-name", {}, photo.name));
  }
  return card(photo, { actions: () => ways(info, photo.id) });
}

/** Fills a grid piece by piece; `piece(offset, signal)` gives items and how many there are. */
function paged(grid, piece) {
  let loaded = 0;
  return endless(async (signal) => {
    const [items, total] = await piece(loaded, signal);
    loaded += items.length;
    grid.append(items);
    return loaded < total && items.length > 0;
  });
}
