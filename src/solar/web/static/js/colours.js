// The colours of maps: "ember" of `solar attention`, from dark to bright in equal steps, and those
// of `solar why`.

/** Every 17th colour, as in `solar/show/colours.py`: the lightness has equal steps. */
const ANCHORS = [
  [5, 3, 24], [22, 4, 47], [46, 3, 68], [74, 0, 84], [106, 0, 93],
  [137, 0, 93], [163, 0, 89], [187, 31, 83], [210, 56, 75], [231, 80, 64],
  [246, 109, 58], [255, 138, 52], [255, 168, 55], [255, 199, 82], [255, 228, 133],
  [254, 254, 183],
];

/** 256 colours, [r, g, b] each. */
export const EMBER = Array.from({ length: 256 }, (_, level) => {
  const at = Math.min(Math.floor(level / 17), 14);
  const part = (level - 17 * at) / 17;
  return ANCHORS[at].map((low, c) => Math.round(low + part * (ANCHORS[at + 1][c] - low)));
});

/** A colour of the map for CSS, from a level of 0 to 1. */
export const ember = (level) => `rgb(${EMBER[Math.round(255 * level)].join(" ")})`;

/** The colours of evidence for and against a match, [r, g, b]. */
export const [FOR, AGAINST] = [[255, 138, 0], [38, 110, 255]];
