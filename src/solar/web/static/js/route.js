// Where the page is: "#/look/17?layer=5" and back, so that Back, Forward and links work.

let listener = () => {};
let steps = 0;
const scrolled = new Map();
let shown = "";

/** An address as a view, its parts and its parameters. */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...parts] = path.split("/").filter(Boolean).map(decoded);
  return { view: view ?? "search", parts, params: Object.fromEntries(new URLSearchParams(query)) };
}

/** A link that was cut off leads somewhere else, not nowhere. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a view; parameters that are empty, null or false are left out. */
export function address(view, parts = [], params = {}) {
  const path = [view === "search" ? "" : view, ...parts.map(encodeURIComponent)]
    .filter(Boolean)
    .join("/");
  const kept = Object.entries(params).filter(([, value]) => value || value === 0);
  const query = new URLSearchParams(kept.map(([name, value]) => [name, String(value)]));
  // Commas are legal here, and boxes read better with them.
  const text = query.toString().replaceAll("%2C", ",");
  return `#/${path}${text && `?${text}`}`;
}

/** Goes to an address; `replace` leaves no step to come back to. */
export function go(hash, { replace = false } = {}) {
  if (hash === location.hash) return;
  if (!replace) {
    location.hash = hash;
    return;
  }
  history.replaceState(history.state, "", hash);
  arrive();
}

/** Goes back to where the visitor was on this page, or to the start. */
export function back() {
  // A step without a state has just been taken, and was not arrived at yet.
  if (history.state === null || history.state.step > 0) history.back();
  else go("#/");
}

/** Notes that the present step lies over the one before it, which is still seen below. */
export const lieOver = () => history.replaceState({ ...history.state, over: true }, "");

/** Whether the present step was noted so. */
export const liesOver = () => Boolean(history.state?.over);

/** The scroll position of an address seen before. */
export const scrollOf = (hash) => scrolled.get(hash) ?? 0;

/** Starts to call `arrived(route)` for the present address and each one that follows. */
export function start(arrived) {
  listener = arrived;
  history.scrollRestoration = "manual";
  addEventListener("hashchange", arrive);
  addEventListener("scroll", () => scrolled.set(shown, scrollY), { passive: true });
  arrive();
}

function arrive() {
  const again = history.state?.step !== undefined;
  if (again) steps = history.state.step;
  else history.replaceState({ step: shown ? ++steps : 0 }, "");
  const before = shown;
  shown = location.hash;
  listener({ ...parse(location.hash), hash: location.hash, again: again && before !== "" });
}
