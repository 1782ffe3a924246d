// Match: two photos side by side, whether they show the same scene, and if so a line for each pair
// of points that fits one geometry.

import { isAbort, post } from "../api.js";
import { read } from "../boxes.js";
import { ember } from "../colours.js";
import { button, el, linkButton, shaped, viewHead } from "../dom.js";
import { line, lineSheet } from "../lines.js";
import { problem, say } from "../notice.js";
import { toggle } from "../options.js";
import * as route from "../route.js";
import { confirmed, count, counted, shortName } from "../words.js";
import { remade } from "./remade.js";

/** Makes the view in `root`. */
export function match(root) {
  const about = ({ parts: [a, b], params: { box } }) => ({ a, b, box });
  return remade(root, "Matching details", about, (place) => matching(root, about(place)));
}

function matching(root, { a, b, box: written }) {
  const control = new AbortController();
  const box = read(written) ?? undefined;
  const facts = el("p.facts", { role: "status" }, "Looking for details that both photos have…");
  const pair = el("div.pair", { "aria-busy": "true" });
  const names = el("p.soft");
  const tools = el("div.row");
  root.append(
    el(
      "div.match",
      {},
      viewHead(button("Back", { symbol: "back", on: route.back }), "Matching details", names),
      pair,
      el("div.match-foot", {}, facts, tools),
    ),
  );
  let sheet = null;
  find();

  async function find() {
    try {
      show(await post("/matches", { a, b, box }, { signal: control.signal }));
    } catch (error) {
      if (isAbort(error)) return;
      facts.textContent = "";
      pair.replaceChildren(problem(error, find));
    }
    pair.removeAttribute("aria-busy");
  }

  function show(found) {
    const some = found.same_scene;
    sheet = draw(pair, found);
    names.textContent = [found.a, found.b].map(({ name }) => shortName(name)).join(" and ");
    facts.replaceChildren(
      el("b.verdict-words", { "data-verdict": some ? "same" : "similar" }, `${confirmed(some)}.`),
      ` ${told(found)}`,
      el(
        "details.search-details",
        {},
        el("summary", {}, "Details"),
        `${counted(found.matches, "match", "matches")} from ${found.keypoints.map(count).join(" and ")} keypoints.`,
      ),
    );
    say(facts.textContent);
    if (found.inliers.length + found.rejected.length) {
      tools.append(toggle("Lines", null, true, (on) => pair.classList.toggle("points-only", !on)));
    }
    tools.append(
      linkButton("Search with the result", route.address("search", [], { q: b }), "search"),
      linkButton("Attention map of the result", route.address("look", [b]), "look"),
    );
  }

  return {
    leave() {
      control.abort();
      sheet?.leave();
    },
  };
}

/** What the matches mean, in a sentence or two. */
function told({ inliers, threshold, same_scene: same }) {
  const many = inliers.length;
  if (same) return `${counted(many, "detail")} of both photos fit together; ${threshold} are needed.`;
  const few = many ? `Only ${counted(many, "detail")}` : "No detail";
  const fit = `${few} of both photos ${many > 1 ? "fit" : "fits"} together; ${threshold} are needed.`;
  return `${fit} It may still be the same place, from another side or in another light.`;
}

/** Shows the photos and the lines; gives what keeps the lines in place when sizes change. */
function draw(pair, found) {
  const { inliers, rejected, same_scene: same } = found;
  // What does not fit, or not enough of it, is drawn faint.
  const matches = [...rejected, ...inliers];
  const images = [found.a, found.b].map((side, at) =>
    shaped(
      el("img", {
        src: side.photo,
        alt: `The ${at ? "result" : "query"}, ${side.name}`,
        title: side.name,
        draggable: "false",
      }),
      side,
    ),
  );
  const parts = ({ width, height }, x, y) => [x / width, y / height];
  const lines = matches.map(([xa, ya, xb, yb], all) => {
    const at = all - rejected.length;
    const fits = same && at >= 0;
    const made = line(fits ? ember(0.45 + (0.5 * at) / Math.max(1, inliers.length - 1)) : "#b9b4aa");
    made.classList.toggle("faint", !fits);
    return [made, parts(found.a, xa, ya), parts(found.b, xb, yb)];
  });
  const label = `${counted(inliers.length, "line")} between the photos`;
  const sheet = lineSheet(pair, images, { role: "img", "aria-label": label });
  pair.replaceChildren(...images.map((image) => el("figure", {}, image)), sheet.element);
  sheet.show(lines);
  pair.addEventListener("pointerover", (event) => {
    const over = event.target.closest?.("g");
    pair.classList.toggle("one", Boolean(over));
    for (const one of pair.querySelectorAll("g.over")) one.classList.remove("over");
    over?.classList.add("over");
    if (over) sheet.element.append(over);
  });
  pair.addEventListener("pointerleave", () => pair.classList.remove("one"));
  return sheet;
}
