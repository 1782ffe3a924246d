// The filters in force, each with a way to drop it: on a phone their fields are folded away.

import { button, el, refill } from "../dom.js";
import { FILTERS, MARK } from "./address.js";

const TEXTS = {
  name: (value) => `Named “${value}”`,
  label: (value) => `Label ${value}`,
  folder: (value) => `Folder ${value}`,
  tag: (value) => `Tag ${value}`,
  root: (value) => `Root ${value.slice(0, -MARK.length) || "without a name"}`,
  from: (value) => `From ${value}`,
  to: (value) => `Until ${value}`,
  where: (value) => value,
  min: (value) => `Score ≥ ${value}`,
  probable: (value) => `Same place ≥ ${value} %`,
};

/** @param {function(object)} change Called with the parameters of the address that changed. */
export function chips(change) {
  const element = el("ul.chips", { "aria-label": "Active filters", hidden: true });
  return {
    element,
    show(params) {
      const set = FILTERS.filter((name) => params[name]);
      const items = set.map((name) => {
        const text = TEXTS[name](params[name]);
        const drop = button(text, {
          kind: "chip",
          title: "Remove this filter",
          "aria-label": `Remove the filter: ${text}`,
          on: () => change({ [name]: "" }),
        });
        drop.append(el("i", { "aria-hidden": "true" }, "×"));
        return el("li", {}, drop);
      });
      if (set.length > 1) {
        const none = Object.fromEntries(set.map((name) => [name, ""]));
        items.push(el("li", {}, button("Clear filters", { kind: "chip", on: () => change(none) })));
      }
      refill(element, items);
      element.hidden = !items.length;
    },
  };
}
