// The photos that a query consists of: one whose box is drawn, and further ones with their own.

import * as boxes from "./boxes.js";
import { thumbnail } from "./card.js";
import { button, cover, el, shaped } from "./dom.js";
import { photo } from "./photos.js";

export const MOST = 10;

/** Parts from the parameters of an address, where `and` is "17,12.41.30.280.201". */
export function read({ q, box, and }) {
  const further = (and ?? "").split(",").filter(Boolean);
  return [
    { id: q, box: boxes.read(box) },
    ...further.map((text) => {
      const [id, ...edges] = text.split(".");
      return { id, box: boxes.read(edges.join(",")) };
    }),
  ];
}

/** The parameters of an address for parts. */
export function written([first, ...further]) {
  const one = ({ id, box }) => [id, ...(box ?? []).map(Math.round)].join(".");
  return { q: first.id, box: boxes.written(first.box), and: further.map(one).join(",") };
}

/** What of a request they stand for; nothing where there is only one. */
export function request(params) {
  const further = read(params).slice(1);
  if (!further.length) return {};
  return { further: further.map(({ id, box }) => ({ photo: id, box: box ?? undefined })) };
}

/**
 * A strip of all parts, where there are several.
 * @param {function(object[])} changed Called with the parts after a choice or a removal.
 */
export function strip(parts, changed) {
  if (parts.length < 2) return null;
  const items = parts.map((part, at) => {
    const others = parts.filter((_, number) => number !== at);
    const main = button("", {
      kind: "part-main",
      "aria-current": at === 0 ? "true" : null,
      on: () => at && changed([part, ...others]),
    });
    const drop = button("", { kind: "icon-button", symbol: "close", on: () => changed(others) });
    const name = (text) => {
      main.setAttribute("aria-label", at ? `Edit the box of ${text}` : `${text}, being edited`);
      main.title = main.ariaLabel;
      drop.setAttribute("aria-label", `Remove ${text} from the query`);
      drop.title = drop.ariaLabel;
    };
    name(`photo ${at + 1}`);
    photo(part.id).then(
      (found) => {
        name(found.name);
        shaped(main, found);
        main.append(thumbnail(found), ...frame(part.box, found));
      },
      () => main.append("gone"),
    );
    return el("li.part", {}, main, drop);
  });
  return el("ul.parts", { "aria-label": "Photos of the query" }, ...items);
}

/** The box of a part on its thumbnail. */
function frame(box, photo) {
  if (!box) return [];
  return [cover(el("i.part-box"), boxes.between(box.slice(0, 2), box.slice(2), photo), photo)];
}
