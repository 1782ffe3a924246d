// The groups of a report, a page at a time.

import { fresh } from "../fresh.js";

const PAGE = 25;
const KEPT = 40;

/**
 * A source for `review`.
 * @param {object} overview What is known of all groups.
 * @param {function(number, number): Promise<object[]>} fetched Gives groups from an offset on.
 */
export function paged(overview, fetched) {
  // A new report may take the place of the one that the overview is of: numbers would mean others.
  async function page(offset, limit) {
    const groups = await fetched(offset, limit);
    const expected = overview.groups.slice(offset, offset + limit);
    if (expected.some(([, id], at) => groups[at]?.id !== id)) {
      throw new Error("The report has changed: reload the page.");
    }
    return groups;
  }

  const known = fresh((offset) => page(offset, PAGE), KEPT);
  const group = async (number) => (await known.get(number - (number % PAGE)))[number % PAGE];
  return { overview, page, group };
}
