// The search box takes "-" before a word as "without it" and ":" as the name of a field. Here they are
// parts of options and of sentences: --verify, solar: command not found.
const typed = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
const box = document.querySelector("[data-md-component=search-query]");
if (box) {
  Object.defineProperty(box, "value", {
    get() {
      return typed.get.call(this).replace(/(^|\s)-+|[:~^*+]/g, "$1");
    },
    set(value) {
      typed.set.call(this, value);
    },
  });
}
