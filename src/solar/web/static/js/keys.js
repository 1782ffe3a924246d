// The keyboard, and the dialog that tells what each key does.

const isTyping = (target) =>
  target.closest?.(
    "input:not([type=range]):not([type=checkbox]):not([type=radio]), textarea, select",
  );

/**
 * Listens to keys.
 * @param {function(string): (function|undefined)} action What a key does at the moment.
 */
export function watchKeys(action) {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open], .menu")) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      // Who has typed what to find goes on to what was found.
      if (event.key === "Enter" && event.target.type === "search") action("ArrowDown")?.();
      return;
    }
    const act = action(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  });
}

/** Opens the help. */
export function help() {
  const dialog = document.getElementById("help-dialog");
  dialog.onclick = ({ target }) => (target === dialog || target.closest("button")) && dialog.close();
  dialog.showModal();
  // Neither button is what one came for, and on a phone they are far below.
  dialog.focus();
  dialog.scrollTop = 0;
}
