// How numbers and names read.

const GROUPED = new Intl.NumberFormat("en");

export const count = (number) => GROUPED.format(number);

/** "1 photo", "1,200 photos". */
export const counted = (number, one, many = `${one}s`) =>
  `${count(number)} ${number === 1 ? one : many}`;

/** Seconds as "0.4 ms", "42 ms" or "1.3 s". */
export function duration(seconds) {
  const thousandths = seconds * 1000;
  if (thousandths < 1) return `${thousandths.toFixed(1)} ms`;
  return thousandths < 1000 ? `${Math.round(thousandths)} ms` : `${seconds.toFixed(1)} s`;
}

export function bytes(size) {
  return size < 2 ** 20 ? `${Math.ceil(size / 2 ** 10)} KiB` : `${+(size / 2 ** 20).toFixed(1)} MiB`;
}

/** What a search says of a result, in words. */
export const VERDICTS = {
  same: "Same place",
  probable: "Probably the same place",
  similar: "Similar only",
};

/** What matching details alone say of two photos. */
export const confirmed = (same) => (same ? "The details match" : "Not confirmed");

/** The last part of a path. */
export const shortName = (name) => name.split("/").at(-1);
