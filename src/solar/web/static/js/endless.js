// Loads more when the end of a list comes near.

import { el } from "./dom.js";
import { isAbort } from "./api.js";
import { problem } from "./notice.js";

const AHEAD = "700px";

/**
 * @param {function(AbortSignal): Promise<boolean>} load Loads the next piece; says whether more is
 *   there. The signal tells that it is no longer wanted.
 * @returns An element to put behind the list, with `start`, which may want a piece `now`, and `stop`.
 */
export function endless(load) {
  const end = el("div.endless");
  let control = null; // of the list that is being loaded
  let waiting = false;
  const watch = new IntersectionObserver(
    (entries) => entries.some((entry) => entry.isIntersecting) && next(),
    { rootMargin: AHEAD },
  );

  async function next() {
    if (waiting) return;
    const mine = control;
    waiting = true;
    end.classList.add("loading");
    try {
      const more = await load(mine.signal);
      if (mine !== control) return;
      if (more) look();
      else stop();
    } catch (error) {
      if (mine === control && !isAbort(error)) {
        stop();
        end.replaceChildren(problem(error, start));
      }
    }
  }

  // The observer only tells of changes: one piece may not have filled the page.
  function look() {
    waiting = false;
    end.classList.remove("loading");
    watch.unobserve(end);
    watch.observe(end);
  }

  function start(now = false) {
    stop();
    control = new AbortController();
    look();
    if (now) next();
  }

  function stop() {
    control?.abort();
    control = null;
    waiting = false;
    watch.disconnect();
    end.classList.remove("loading");
    end.replaceChildren();
  }

  return { element: end, start, stop };
}
