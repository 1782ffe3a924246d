// The photos that were selected on the map: a list, and their paths to copy.

import { thumbnail } from "../card.js";
import { button, el } from "../dom.js";
import { copyPaths } from "../files.js";
import { opening } from "../viewer/address.js";
import { count, counted } from "../words.js";

const SHOWN = 200;

/** @param {function()} clear Called when the visitor wants none selected. */
export function selectedList(clear) {
  let points = [];
  const title = el("h2.map-selected-title", { role: "status" });
  const list = el("ol.map-list");
  const element = el(
    "section.map-selected",
    { hidden: true, "aria-label": "Selected photos" },
    el(
      "div.row",
      {},
      title,
      button("Copy paths", { on: () => copyPaths(points) }),
      button("Clear", { symbol: "close", on: clear }),
    ),
    list,
  );
  return {
    element,
    show(chosen) {
      points = chosen;
      element.hidden = !points.length;
      title.textContent = `${counted(points.length, "photo")} selected`;
      list.replaceChildren(
        ...points.slice(0, SHOWN).map((point) =>
          el("li", {}, el("a", opening(point.id), thumbnail(point), el("span", {}, point.name))),
        ),
        points.length > SHOWN
          ? el("li.soft", {}, `… and ${count(points.length - SHOWN)} more; Copy paths copies all of them`)
          : "",
      );
    },
  };
}
