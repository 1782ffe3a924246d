// The groups of a report, a page at a time, asked for once.

const PAGE = 25;
const KEPT = 40;
// Addresses of pictures may be signed for an hour.
const FRESH = 30 * 60 * 1000;

/**
 * A source for `review`.
 * @param {object} overview What is known of all groups.
 * @param {function(number, number): Promise<object[]>} page Gives groups from an offset on.
 */
export function paged(overview, page) {
  const known = new Map();

  function pageOf(number) {
    const offset = number - (number % PAGE);
    const kept = known.get(offset);
    if (kept && Date.now() - kept.since < FRESH) return kept.promise;
    const promise = page(offset, PAGE);
    known.set(offset, { promise, since: Date.now() });
    promise.catch(() => known.delete(offset));
    if (known.size > KEPT) known.delete(known.keys().next().value);
    return promise;
  }

  return { overview, page, group: async (number) => (await pageOf(number))[number % PAGE] };
}
