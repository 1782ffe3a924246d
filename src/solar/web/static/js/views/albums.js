// Albums: groups of photos of the same place, and the photos of one of them.

import { get } from "../api.js";
import { agreementOf, cover } from "../albums/cover.js";
import { exportButtons } from "../albums/exporting.js";
import { card } from "../card.js";
import { el, linkButton } from "../dom.js";
import { endless } from "../endless.js";
import { createGrid } from "../grid.js";
import { nothing } from "../notice.js";
import * as route from "../route.js";
import { count, counted } from "../words.js";

const COVERS = 40;
const PHOTOS = 60;

/** Makes the view in `root`. */
export function albums(root, shared) {
  let shown = null;
  let wanted = null;

  function show({ parts: [id = null] }) {
    if (shown && id === wanted) return false;
    wanted = id;
    shown?.stop();
    shown = id ? openAlbum(root, shared, id) : listAlbums(root, shared);
    return true;
  }

  return {
    title: "Albums",
    show,
    leave: () => shown?.stop(),
    keys: {
      ArrowDown: () => shown?.grid.focus(),
      ArrowRight: () => shown?.grid.focus(),
    },
  };
}

/** All albums, the largest first. */
function listAlbums(root, { info }) {
  const note = el("p.facts", { role: "status" }, "Opening the albums…");
  const empty = el("div");
  const grid = createGrid("Albums", cover);
  grid.element.classList.add("album-grid");
  const list = paged(grid, async (offset, signal) => {
    const page = await get(`/albums?offset=${offset}&limit=${COVERS}`, { signal });
    note.textContent =
      `${counted(page.total, "album")} with ${count(page.grouped)} of ${counted(page.photos, "photo")}. ` +
      "The keypoints of their photos match.";
    if (!page.total) empty.replaceChildren(nothing("No two photos show the same place."));
    return [page.albums, page.total];
  });
  root.replaceChildren(
    el(
      "div.albums",
      {},
      el(
        "div.view-head",
        {},
        el("h1.view-title", {}, "Albums"),
        note,
        exportButtons(info.name),
      ),
      grid.element,
      empty,
      list.element,
    ),
  );
  list.start();
  return { grid, stop: list.stop };
}

/** The photos of one album, those that belong to it most surely first. */
function openAlbum(root, { info }, id) {
  const note = el("p.facts", { role: "status" }, "Opening the album…");
  const grid = createGrid("Photos of the album", (photo) => albumPhoto(photo, info));
  const holder = el("div", {}, grid.element);
  const list = paged(grid, async (offset, signal) => {
    const query = `offset=${offset}&limit=${PHOTOS}`;
    const album = await get(`/albums/${encodeURIComponent(id)}?${query}`, { signal });
    const facts = `${counted(album.count, "photo")}, ${counted(album.links, "matching pair")} · `;
    note.replaceChildren(facts, agreementOf(album));
    return [album.photos, album.count];
  });
  root.replaceChildren(
    el(
      "div.albums",
      {},
      el(
        "div.view-head",
        {},
        linkButton("All albums", "#/albums", "back"),
        el("h1.view-title", {}, "Album"),
        note,
        exportButtons(info.name, id),
      ),
      holder,
      list.element,
    ),
  );
  list.start();
  return { grid, stop: list.stop };
}

function albumPhoto(photo, { models }) {
  if (!photo.id) {
    const place = el("a.card-main", { tabindex: "-1" }); // no link, but arrows go on from it
    return el("li.card.gone", {}, place, el("div.card-name", {}, photo.name));
  }
  const links = {
    search: route.address("search", [], { q: photo.id }),
    look: models[0].attention.length > 0 && route.address("look", [photo.id]),
  };
  return card({ ...photo, inliers: null }, links, { beside: counted(photo.links, "match", "matches") });
}

/** Fills a grid piece by piece; `piece(offset, signal)` gives items and how many there are. */
function paged(grid, piece) {
  const control = new AbortController();
  let loaded = 0;
  const list = endless(async () => {
    const [items, total] = await piece(loaded, control.signal);
    loaded += items.length;
    grid.append(items);
    return loaded < total && items.length > 0;
  });
  return {
    element: list.element,
    start: list.start,
    stop() {
      control.abort();
      list.stop();
    },
  };
}
