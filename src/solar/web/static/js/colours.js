// The colours of maps: "ember" of `solar attention`, from dark to bright in equal steps, and those
// of `solar why`.

/** Linear interpolation in a table of points. */
function interpolate(x, xs, ys) {
  const at = Math.max(1, xs.findIndex((one) => one >= x));
  const part = (x - xs[at - 1]) / (xs[at] - xs[at - 1]);
  return ys[at - 1] + part * (ys[at] - ys[at - 1]);
}

/** Oklab (equal steps of lightness look equal) as sRGB bytes. */
function oklab(lightness, a, b) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((linear) => {
    const inside = Math.min(Math.max(linear, 0), 1);
    return Math.round(
      255 * (inside <= 0.0031308 ? 12.92 * inside : 1.055 * inside ** (1 / 2.4) - 0.055),
    );
  });
}

/** 256 colours, [r, g, b] each. */
export const EMBER = Array.from({ length: 256 }, (_, step) => {
  const level = step / 255;
  const hue = (interpolate(level, [0, 0.35, 0.7, 1], [285, 350, 405, 468]) * Math.PI) / 180;
  const chroma = interpolate(level, [0, 0.3, 0.6, 0.85, 1], [0.05, 0.19, 0.19, 0.155, 0.09]);
  return oklab(0.12 + 0.86 * level, chroma * Math.cos(hue), chroma * Math.sin(hue));
});

/** A colour of the map for CSS, from a level of 0 to 1. */
export const ember = (level) => `rgb(${EMBER[Math.round(255 * level)].join(" ")})`;

/** The colours of evidence for and against a match, [r, g, b]. */
export const [FOR, AGAINST] = [[255, 138, 0], [38, 110, 255]];
