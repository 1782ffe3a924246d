// Loads more when the end of a list comes near.

import { el } from "./dom.js";
import { isAbort } from "./api.js";
import { problem } from "./notice.js";

const AHEAD = "700px";

/**
 * @param {function(): Promise<boolean>} load Loads the next piece; says whether more is there.
 * @returns An element to put behind the list, with `start` and `stop`.
 */
export function endless(load) {
  const end = el("div.endless", { "aria-hidden": "true" });
  let waiting = false;
  let run = 0;
  const watch = new IntersectionObserver(
    (entries) => entries.some((entry) => entry.isIntersecting) && next(),
    { rootMargin: AHEAD },
  );

  async function next() {
    if (waiting) return;
    const mine = run;
    waiting = true;
    end.classList.add("loading");
    try {
      if (!(await load()) && mine === run) stop();
    } catch (error) {
      if (mine === run && !isAbort(error)) fail(error);
    } finally {
      if (mine === run) {
        waiting = false;
        end.classList.remove("loading");
        again();
      }
    }
  }

  // The observer only tells of changes: look again, as one piece may not have filled the page.
  function again() {
    if (!active) return;
    watch.unobserve(end);
    watch.observe(end);
  }

  let active = false;
  function start() {
    stop();
    active = true;
    watch.observe(end);
  }

  function stop() {
    run += 1;
    waiting = false;
    active = false;
    watch.disconnect();
    end.classList.remove("loading");
    end.replaceChildren();
  }

  function fail(error) {
    stop();
    end.replaceChildren(problem(error, start));
  }

  return { element: end, start, stop };
}
