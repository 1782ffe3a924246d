// The groups of a report, a page at a time, asked for once.

const PAGE = 25;
const KEPT = 40;
// Addresses of pictures may be signed for an hour.
const FRESH = 30 * 60 * 1000;

/**
 * A source for `review`.
 * @param {object} overview What is known of all groups.
 * @param {function(number, number): Promise<object[]>} fetched Gives groups from an offset on.
 */
export function paged(overview, fetched) {
  const known = new Map();

  // A new report may take the place of the one that the overview is of: numbers would mean others.
  async function page(offset, limit) {
    const groups = await fetched(offset, limit);
    const expected = overview.groups.slice(offset, offset + limit);
    if (expected.some(([, id], at) => groups[at]?.id !== id)) {
      throw new Error("The report has changed: reload the page.");
    }
    return groups;
  }

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
