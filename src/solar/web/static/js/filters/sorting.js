// The order of what is shown.

import { chooser } from "../options.js";
import { facets } from "./facets.js";

/** Orders of results: the value in the address, and what people call it. */
export const HITS = [
  ["", "Best first"],
  ["similarity", "Similarity"],
  ["probability", "Probability"],
  ["newest", "Newest first"],
  ["oldest", "Oldest first"],
  ["name", "Name"],
];

/** Orders of the collection. */
export const PHOTOS = [["", "As indexed"], ...HITS.slice(3)];

const NEEDS = {
  probability: (info) => info.features.probability,
  newest: (_, there) => there.with_time > 0,
  oldest: (_, there) => there.with_time > 0,
};

/**
 * @param {string[][]} orders Those above.
 * @param {function({sort: string})} change Called with the parameter of the address.
 */
export function sorter(orders, info, change) {
  const element = chooser("Sort", orders.slice(0, 1), "", (sort) => change({ sort }));
  const select = element.querySelector("select");
  let wanted = "";
  const fill = (there) => {
    const here = orders.filter(([key]) => key === wanted || (NEEDS[key]?.(info, there) ?? true));
    select.replaceChildren(...here.map(([key, text]) => new Option(text, key)));
    select.value = wanted;
  };
  element.classList.add("sorter");
  fill({ with_time: 0 });
  facets().then(fill, () => {});
  return {
    element,
    show({ sort }) {
      wanted = orders.some(([key]) => key === sort) ? sort : "";
      if (![...select.options].some((one) => one.value === wanted)) {
        const [, text] = orders.find(([key]) => key === wanted);
        select.append(new Option(text, wanted));
      }
      select.value = wanted;
    },
  };
}
