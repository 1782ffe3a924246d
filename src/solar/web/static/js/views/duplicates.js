// Duplicates: going through the groups of a report.

import { get } from "../api.js";
import { paged } from "../duplicates/pages.js";
import { review } from "../duplicates/review.js";
import { el } from "../dom.js";
import { problem } from "../notice.js";
import * as route from "../route.js";
import { outdated } from "./albums.js";
import { keepingPhoto, photoAddress } from "../viewer/address.js";

const page = async (offset, limit) =>
  (await get(`/duplicates/groups?offset=${offset}&limit=${limit}`)).groups;

/** Makes the view in `root`. */
export function duplicates(root, { info }) {
  let shown = null;
  let wanted = {};
  let left = false;

  async function open() {
    try {
      const overview = await get("/duplicates");
      if (left) return;
      root.replaceChildren(
        ...(overview.outdated
          ? [el("p.outdated", {}, outdated(overview.photos, info.photos, "solar duplicates"))]
          : []),
      );
      shown = review(root, paged(overview, page), went, (photo) => photo.id && photoAddress(photo.id));
      shown.start(wanted);
    } catch (error) {
      root.replaceChildren(problem(error, open));
    }
  }

  function went(place) {
    route.go(keepingPhoto(route.address("duplicates", [], place)), { replace: true });
  }

  open();
  return {
    title: "Duplicates",
    show({ params }) {
      wanted = params;
      const { kind = "", group } = shown?.place ?? {};
      const here = (params.kind ?? "") === kind && Number(params.group) === group + 1;
      if (shown && !here) shown.start(params);
      return false;
    },
    order: () => shown?.photos ?? [],
    leave() {
      left = true;
      shown?.leave();
    },
    get keys() {
      return shown?.keys;
    },
  };
}
