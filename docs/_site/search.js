// Readers paste options and whole sentences of the program into the search box, which would take "-"
// for "without", ":" for the name of a field, and "a" for every word that begins with it. It is given
// the words that say something instead.
const few = new Set(
  `a an and are as at be but by can do for from has have how i in into is it its my no not of on one or
  so solar that the there this to was what where which with you your`.split(/\s+/),
);

// Other spellings of words that the pages use.
const spellings = [
  [/\bfine-?tun/gi, "fine tun"],
  [/\bre-?rank/gi, "re rank"],
  [/neighbor/gi, "neighbour"],
  [/quantisation/gi, "quantization"],
];

function words(text) {
  const spelled = spellings.reduce((now, [from, to]) => now.replace(from, to), text);
  const all = spelled.split(/[^\p{L}\p{N}._/]+|[._/]+(?=\s|$)/u).filter(Boolean);
  const telling = all.filter((word) => !few.has(word.toLowerCase()));
  return (telling.length ? telling : all).join(" ");
}

const typed = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
const box = document.querySelector("[data-md-component=search-query]");
if (box) {
  Object.defineProperty(box, "value", {
    get() {
      return words(typed.get.call(this));
    },
    set(value) {
      typed.set.call(this, value);
    },
  });
}
