// Addresses of the viewer. It lies over a view: its photo is a parameter of the view's address.

import * as route from "../route.js";

/** The address of a photo over what is shown now; `near`: the photo whose neighbour it is. */
export function photoAddress(id, near = null) {
  const { view, parts, params } = route.parse(location.hash);
  return route.address(view, parts, { ...params, photo: id, near });
}

/** Attributes of a link that opens a photo over what is shown when it is clicked; as above. */
export const opening = (id, near = null) => ({
  href: photoAddress(id, near),
  on: {
    click(event) {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      // Who goes on from photo to photo comes back in one step.
      route.go(photoAddress(id, near), { replace: near !== null });
    },
  },
});

/** The photo that a place names, and the place without it. */
export function apart(place) {
  const { photo = null, near = null, ...params } = place.params;
  const base = route.address(place.view, place.parts, params);
  return { photo, near, base, below: { ...place, params } };
}

/** The same address with the photo that is open now over it, if there is one. */
export function keepingPhoto(address) {
  const { photo, near } = route.parse(location.hash).params;
  const { view, parts, params } = route.parse(address);
  return route.address(view, parts, { ...params, photo, near });
}

/** A search with a photo; the options and filters of the search it was found by stay. */
export function searchWith(id, { view, params }) {
  const kept = view === "search" ? params : {};
  const own = { q: id, text: "", box: "", and: "", like: "", unlike: "" };
  return route.address("search", [], { ...kept, ...own });
}
