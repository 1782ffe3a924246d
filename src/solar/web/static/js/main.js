// Starts the page: asks the server what it has, and shows the view that the address names.

import { get } from "./api.js";
import { el, icon, refocus, unfocused } from "./dom.js";
import { indexSwitch } from "./indexes.js";
import { help, watchKeys } from "./keys.js";
import { openMenu } from "./menu.js";
import { notify, problem, telling, watchConnection } from "./notice.js";
import { MOST, written } from "./parts.js";
import * as route from "./route.js";
import { themeButton } from "./theme.js";
import { uploadAll, watchIncoming } from "./upload.js";
import { apart, searchWith } from "./viewer/address.js";
import { photoViewer } from "./viewer/viewer.js";
import { add } from "./views/add.js";
import { albums } from "./views/albums.js";
import { compare } from "./views/compare.js";
import { duplicates } from "./views/duplicates.js";
import { explore } from "./views/explore.js";
import { look } from "./views/look.js";
import { match } from "./views/match.js";
import { removed } from "./views/removed.js";
import { search } from "./views/search.js";
import { why } from "./views/why.js";
import { count } from "./words.js";

const VIEWS = { search, look, compare, match, why, map: explore, albums, duplicates, add, removed };
const main = document.getElementById("main");
// What views share: what the server told, and the photo that was last searched with.
const shared = { info: null, query: null, box: null };
let view = null;
let shownName = null;
let shownBase = null;
let viewer = null;

async function begin() {
  watchConnection();
  themeButton(document.getElementById("theme"), () => view?.recolour?.());
  document.getElementById("help").addEventListener("click", help);
  const advanced = document.getElementById("advanced");
  advanced.addEventListener("click", () => openMenu(advanced, advancedViews()));
  document.getElementById("skip").addEventListener("click", skip);
  await learn();
}

async function learn() {
  try {
    shared.info = await get("/info");
  } catch (error) {
    main.replaceChildren(problem(error, learn));
    return;
  }
  document.getElementById("collection").textContent =
    `${shared.info.name} · ${count(shared.info.photos)}`;
  viewer = photoViewer(main, shared);
  indexSwitch(document.querySelector(".brand"), shared.info);
  watchIncoming(receive);
  watchKeys(keyAction);
  route.start(show);
}

/** Shows where the visitor has come: the view, and a photo over it. */
function show(place) {
  if (!VIEWS[place.view] || lacking(place.view)) {
    if (VIEWS[place.view]) notify(`There are no ${place.view} in ${shared.info.name}.`);
    route.go("#/", { replace: true });
    return;
  }
  const wanted = apart(place);
  if (wanted.base === shownBase) {
    if (wanted.photo && !place.again) route.lieOver();
  } else {
    shownBase = wanted.base;
    showView(wanted.below, wanted.base);
    if (shownBase !== wanted.base) return; // the view has gone on to another place
  }
  viewer.show(wanted, view);
  if (!wanted.photo) entitle();
}

/** Whether this index has nothing for a view that another one may have. */
const lacking = (view) =>
  ["albums", "duplicates"].includes(view) && !shared.info.features[view];

const entitle = () =>
  (document.title = `${view.title ?? "Search"} · ${shared.info.name} · solar`);

/** The view changes, or only what it shows. */
function showView(place, base) {
  const fresh = place.view !== shownName;
  if (fresh) {
    view?.leave?.();
    main.replaceChildren();
    main.dataset.view = place.view;
    view = VIEWS[place.view](main, shared);
    shownName = place.view;
    refocus();
  }
  const moved = view.show(place, fresh) ?? fresh;
  tabs(place.view);
  if (unfocused()) refocus();
  if (place.again) settleAt(route.scrollOf(place.hash) || route.scrollOf(base));
  else if (moved) scrollTo(0, 0);
}

/** Scrolls to where the visitor was, once there is enough to scroll. */
function settleAt(y) {
  const until = performance.now() + 1500;
  const attempt = () => {
    scrollTo(0, y);
    if (Math.abs(scrollY - y) > 2 && performance.now() < until) requestAnimationFrame(attempt);
  };
  attempt();
}

function tabs(current) {
  const { features, settings } = shared.info;
  const all = [
    ["search", "Search", "#/"],
    features.albums && ["albums", "Albums", "#/albums"],
    features.duplicates && ["duplicates", "Duplicates", "#/duplicates"],
    features.map && ["map", "Map", "#/map"],
    settings.writable && ["add", "Add", "#/add"],
  ].filter(Boolean);
  document
    .getElementById("tabs")
    .replaceChildren(
      ...all.map(([name, text, href]) =>
        el(
          "a.tab",
          { href, "aria-current": name === current ? "page" : null },
          icon(name),
          el("span", {}, text),
        ),
      ),
    );
}

/** What those want who know the models. */
function advancedViews() {
  const { info, query } = shared;
  return [
    { text: "Look: attention maps", symbol: "look", href: lookAddress() },
    {
      text: "Compare two settings",
      symbol: "compare",
      href: route.address("compare", [], { q: query }),
    },
    ...(info.settings.writable
      ? [{ text: "Removed photos", symbol: "undo", href: "#/removed" }]
      : []),
  ];
}

const lookAddress = () => route.address("look", shared.query ? [shared.query] : []);

/** Photos from outside go to the view if it wants them, or else are searched with. */
const receive = telling(async (files) => {
  if (view.takeFiles) {
    view.takeFiles(files);
    return;
  }
  const most = view.takePhoto ? 1 : MOST;
  if (files.length > most) notify(`${files.length - most} of ${files.length} photos are left out.`);
  const photos = await uploadAll(files.slice(0, most), shared.info);
  if (!photos.length) return;
  if (view.takePhoto) view.takePhoto(photos[0]);
  else route.go(route.address("search", [], written(photos.map(({ id }) => ({ id, box: null })))));
});
shared.receive = receive;

function keyAction(key) {
  const everywhere = {
    "?": help,
    Escape: route.back,
    c: () => route.go(route.address("compare", [], { q: shared.query })),
    e: () => shared.info.features.map && route.go("#/map"),
    g: () => shared.info.features.albums && route.go("#/albums"),
    d: () => shared.info.features.duplicates && route.go("#/duplicates"),
    q: searchWithCard,
    l: () => shared.query && route.go(lookAddress()),
    u: () => document.querySelector(".toast:not([data-kind='waiting']) button")?.click(),
  };
  return view.keys?.[key] ?? everywhere[key];
}

/** Searches with the photo of the card that has the focus. */
function searchWithCard() {
  const id = document.activeElement?.closest(".card:not(.album-card)")?.dataset.id;
  if (id) route.go(searchWith(id, route.parse(shownBase)));
}

function skip(event) {
  event.preventDefault();
  main.focus();
}

begin();
