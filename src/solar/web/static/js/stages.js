// What the stages of a search took, and what each of them changed.

import { el } from "./dom.js";
import { counted, duration } from "./words.js";

const DONE = {
  describe: "Embedding",
  features: "Local features",
  search: "Search",
  expand: "Expansion",
  verify: "Verification",
};
const COMING = { search: "Searching", expand: "Expanding", verify: "Verifying" };
const TOP = 10;

/** A stage in words; one of a method without a verb of its own is called as that is. */
const named = (words, stage) => words[stage] ?? stage[0].toUpperCase() + stage.slice(1);

/** How a ranking differs from the one before: photos that moved, and those new among the best. */
function difference(before, after) {
  const ranks = new Map(before.map((hit) => [hit.id, hit.rank]));
  const top = new Set(before.slice(0, TOP).map((hit) => hit.id));
  return {
    moved: after.filter((hit) => ranks.has(hit.id) && ranks.get(hit.id) !== hit.rank).length,
    risen: after.slice(0, TOP).filter((hit) => !top.has(hit.id)).length,
  };
}

function change(stage, answers) {
  const at = answers.findIndex((answer) => answer.stage === stage);
  if (at < 1) return null;
  const { moved, risen } = difference(answers[at - 1].hits, answers[at].hits);
  if (!moved && !risen) return "no change";
  return `${moved} moved${risen ? `, ${risen} new in the top ${TOP}` : ""}`;
}

/**
 * A line of stages.
 * @param {object[]} answers Those of the search that have come, in order.
 * @param {string[]} awaited Stages still to come.
 */
export function stageLine(answers, awaited = []) {
  const seconds = answers.at(-1)?.seconds ?? {};
  const chips = Object.keys(seconds).map((stage) =>
    el(
      "li.stage-chip",
      { "data-stage": stage },
      el("b", {}, named(DONE, stage)),
      el("span", {}, duration(seconds[stage])),
      !["describe", "features", "search"].includes(stage) && el("em", {}, change(stage, answers) ?? ""),
    ),
  );
  const coming = awaited.map((stage) =>
    el("li.stage-chip.coming", {}, el("b", {}, named(COMING, stage)), el("span.dots", {}, "…")),
  );
  return el("ul.stages", { "aria-label": "Time per stage" }, ...chips, ...coming);
}

/** A sentence on a finished search, for those who listen. */
export function summary(answers) {
  const last = answers.at(-1);
  if (!last.hits.length) return "Nothing was found.";
  const changes = answers
    .map(({ stage }) => [stage, change(stage, answers)])
    .filter(([, text]) => text)
    .map(([stage, text]) => `${named(DONE, stage)}: ${text}.`);
  const found = `${counted(last.hits.length, "photo")}${last.more ? " and more" : ""}.`;
  return [found, `The best match is ${last.hits[0].name}.`, ...changes].join(" ");
}
