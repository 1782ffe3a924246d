// What is known of a photo, in words.

import { el } from "../dom.js";
import { bytes, count } from "../words.js";

const MAP = "https://www.openstreetmap.org/";

/** A list of all that is known. */
export function photoFacts(photo) {
  const { lens, focal_length: length, aperture, exposure, iso } = photo.exposure;
  const rows = [
    ["Path", photo.name],
    ["Pixels", photo.width && `${count(photo.width)} × ${count(photo.height)}`],
    ["RAW", photo.preview && "shown and searched by the preview in the file"],
    ["File", photo.bytes && bytes(photo.bytes)],
    ["Taken", photo.taken?.replace("T", " ")],
    ["Camera", photo.camera],
    ["Lens", [lens, length].filter(Boolean).join(", ")],
    ["Exposure", [exposure, aperture, iso && `ISO ${iso}`].filter(Boolean).join(", ")],
    ["Place", photo.position && mapLink(photo.position)],
    ["Label", photo.label],
    ["Tags", photo.tags?.join(", ")],
    ...Object.entries(photo.fields ?? {}).map(([name, value]) => [name, String(value)]),
  ];
  return el(
    "dl.viewer-facts",
    {},
    ...rows.map(([name, value]) => value && el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}

/** Degrees as people write them, with a link to a map; nothing is fetched from there. */
function mapLink([north, east]) {
  const degrees = (value, [positive, negative]) =>
    `${Math.abs(value).toFixed(5)}° ${value < 0 ? negative : positive}`;
  return el(
    "a",
    {
      href: `${MAP}?mlat=${north}&mlon=${east}#map=16/${north}/${east}`,
      target: "_blank",
      rel: "noreferrer",
      title: "Show it on OpenStreetMap",
    },
    `${degrees(north, "NS")}, ${degrees(east, "EW")}`,
  );
}

/** What a photo is saved as: under its own name, and as what it is. */
export function savedName({ name, original_is_file: file }) {
  const own = name.split("/").at(-1);
  return file || /\.jpe?g$/i.test(own) ? own : `${own.replace(/\.[^.]+$/, "")}.jpg`;
}
