// Views whose content is made anew when they come to show something else.

/**
 * A view in `root`.
 * @param {function(object): *} about What a place shows: as long as it is the same, content stays.
 * @param {function(object): object} make Fills `root`, and gives `keys`, `leave()`, and `show(params)`
 *   for what may change without the content being made anew; each of them may be missing.
 * @param {object} more What else the view has.
 */
export function remade(root, title, about, make, more = {}) {
  let content = null;
  let shown = null;
  return {
    ...more,
    title,
    /** Gives whether the page shows something else than before. */
    show(place) {
      const wanted = JSON.stringify(about(place));
      const stays = wanted === shown;
      if (!stays) {
        content?.leave?.();
        root.replaceChildren();
        content = make(place);
        shown = wanted;
      }
      content.show?.(place.params);
      return !stays;
    },
    leave: () => content?.leave?.(),
    /** What is shown, with all that it has. */
    get content() {
      return content;
    },
    get keys() {
      return content?.keys;
    },
  };
}
