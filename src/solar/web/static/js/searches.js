// Searches: their stages as they arrive, further pages, and those made before, for Back.

import { post, stream } from "./api.js";

export const PAGE = 40;
const KEPT = 30;
const kept = new Map();

/** One search: `answers` holds what each stage found, `hits` all that are known. */
class Search {
  answers = [];
  hits = [];
  more = false;
  complete = false;

  constructor(request) {
    this.request = request;
  }

  /** Stages that are still to come. */
  get awaited() {
    return this.complete ? [] : (this.answers.at(-1)?.awaited ?? ["search"]);
  }

  /** Runs the search; `arrived()` is called after each stage. */
  async run(arrived, signal) {
    this.answers = [];
    await stream(
      "/search",
      { ...this.request, k: PAGE },
      (answer) => {
        this.answers.push(answer);
        ({ hits: this.hits, more: this.more, complete: this.complete } = answer);
        if (this.complete) keep(this);
        arrived();
      },
      { signal },
    );
  }

  /** Gets the next page, and gives its hits. */
  async next(signal) {
    const answer = await post(
      "/search",
      { ...this.request, k: PAGE, offset: this.hits.length },
      { signal },
    );
    this.hits = [...this.hits, ...answer.hits];
    this.more = answer.more && answer.hits.length > 0;
    return answer.hits;
  }
}

function keep(search) {
  kept.set(key(search.request), search);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
}

const key = (request) => JSON.stringify(request);

/** The search for a request: one made before where there is one. */
export const searchFor = (request) => kept.get(key(request)) ?? new Search(request);

/** Forgets all: the collection has changed. */
export const forgetSearches = () => kept.clear();
