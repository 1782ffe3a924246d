// Starts the page: asks the server what it has, and shows the view that the address names.

import { get } from "./api.js";
import { el, icon } from "./dom.js";
import { help, watchKeys } from "./keys.js";
import { notify, problem, watchConnection } from "./notice.js";
import * as route from "./route.js";
import { themeButton } from "./theme.js";
import { upload, watchIncoming } from "./upload.js";
import { add } from "./views/add.js";
import { compare } from "./views/compare.js";
import { duplicates } from "./views/duplicates.js";
import { explore } from "./views/explore.js";
import { look } from "./views/look.js";
import { match } from "./views/match.js";
import { search } from "./views/search.js";
import { why } from "./views/why.js";
import { count } from "./words.js";

const VIEWS = { search, look, compare, match, why, explore, duplicates, add };
const main = document.getElementById("main");
// What views share: what the server told, and the photo that was last searched with.
const shared = { info: null, query: null, box: null };
let view = null;
let shownName = null;

async function begin() {
  watchConnection();
  themeButton(document.getElementById("theme"), () => view?.recolour?.());
  document.getElementById("help").addEventListener("click", help);
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
  watchIncoming(receive);
  watchKeys(keyAction);
  route.start(show);
}

/** Shows where the visitor has come: the view changes, or only what it shows. */
function show(place) {
  const make = VIEWS[place.view];
  if (!make) {
    route.go("#/", { replace: true });
    return;
  }
  const fresh = place.view !== shownName;
  if (fresh) {
    view?.leave?.();
    main.replaceChildren();
    main.dataset.view = place.view;
    view = make(main, shared);
    shownName = place.view;
    main.focus({ preventScroll: true });
  }
  const moved = view.show(place, fresh) ?? fresh;
  document.title = `${view.title ?? "Search"} · ${shared.info.name} · solar`;
  tabs(place.view);
  if (place.again) settleAt(route.scrollOf(place.hash));
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
  const { info, query } = shared;
  const all = [
    ["search", "Search", "search", "#/"],
    ["look", "Look", "look", route.address("look", query ? [query] : [])],
    ["compare", "Compare", "compare", route.address("compare", [], { q: query })],
    info.features.map && ["explore", "Explore", "explore", "#/explore"],
    info.features.duplicates && ["duplicates", "Duplicates", "duplicates", "#/duplicates"],
    info.settings.writable && ["add", "Add", "add", "#/add"],
  ].filter(Boolean);
  document
    .getElementById("tabs")
    .replaceChildren(
      ...all.map(([name, text, symbol, href]) =>
        el(
          "a.tab",
          { href, "aria-current": name === current ? "page" : null },
          icon(symbol),
          el("span", {}, text),
        ),
      ),
    );
}

/** Photos from outside go to the view if it wants them, or else are searched with. */
async function receive(files) {
  if (view.takeFiles) {
    view.takeFiles(files);
    return;
  }
  document.body.classList.add("sending");
  try {
    const photo = await upload(files[0], shared.info);
    if (view.takePhoto) view.takePhoto(photo);
    else route.go(route.address("search", [], { q: photo.id }));
  } catch (error) {
    notify(error.message, "bad");
  } finally {
    document.body.classList.remove("sending");
  }
}
shared.receive = receive;

function keyAction(key) {
  const everywhere = {
    "?": help,
    Escape: route.back,
    c: () => route.go(route.address("compare", [], { q: shared.query })),
    e: () => route.go("#/explore"),
    d: () => shared.info.features.duplicates && route.go("#/duplicates"),
    l: () => shared.query && route.go(route.address("look", [shared.query])),
  };
  return view.keys?.[key] ?? everywhere[key];
}

function skip(event) {
  event.preventDefault();
  main.focus();
}

begin();
