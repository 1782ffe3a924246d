// What comes before and after a photo: the cards of the grid that it was opened from.

/** @param {HTMLElement} main Where the view is. */
export function cardOrder(main) {
  const cardsOf = (id) => [...main.querySelectorAll(`.card[data-id="${CSS.escape(id)}"]`)];
  let grid = null;
  let last = null; // the last photo that had a card: those who leave the list come back here

  /** The card of a photo, in the grid that one is in where several have it. */
  function card(id) {
    const all = cardsOf(id);
    return all.find((one) => grid?.contains(one)) ?? all[0] ?? null;
  }

  return {
    card,
    /** Begins anew: the photo was opened from the element that had the focus. */
    begin(from) {
      grid = from?.closest?.(".grid") ?? null;
      last = null;
    },
    /** Goes to a photo: its card is brought into the window, so that a long list loads on. */
    reach(id) {
      const own = card(id);
      if (!own) return;
      last = id;
      grid = own.closest(".grid");
      own.scrollIntoView({ block: "nearest" });
    },
    /** The id of the photo `by` steps on; null at the ends. */
    step(id, by) {
      if (!grid?.isConnected) this.reach(id); // the list came after the photo
      const ids = [...(grid?.querySelectorAll(".card[data-id]") ?? [])].map((one) => one.dataset.id);
      const at = ids.indexOf(ids.includes(id) ? id : last);
      return at < 0 ? null : (ids[at + by] ?? null);
    },
  };
}
