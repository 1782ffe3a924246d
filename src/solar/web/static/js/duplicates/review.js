// Going through groups of duplicates: which photo to keep, and which pairs are none.

import { button, el, icon, refocus, set, viewHead } from "../dom.js";
import { nothing, notify, problem, say } from "../notice.js";
import { chooser, toggle } from "../options.js";
import { bytes, count, counted, shortName } from "../words.js";
import { ordered } from "./alignment.js";
import { decisionStore, dissolved, outcome, suggestion } from "./decisions.js";
import { exportDialog } from "./exporting.js";
import { pairStage } from "./pair_stage.js";

const NAMES = {
  exact: "Identical files",
  copy: "Copies",
  crop: "Crops",
  burst: "Near-identical views",
  place: "Same place",
};
const PAIRS = { ...NAMES, copy: "A copy", crop: "A crop", burst: "Near-identical view" };
// Of photos of one place nothing need go: they are shown to those who ask.
const NEEDS = (kind) => kind !== "place";
const ALL = "all";
const STATES = { keep: "Keep", remove: "May be deleted", apart: "Stays" };
const HINTS = [
  ["↓ ↑", "group"],
  ["→ ←", "pair"],
  ["1 … 9", "keep this one"],
  ["a", "keep all"],
  ["n", "not a duplicate"],
  ["Enter", "OK, next"],
  ["u", "undo"],
  ["s", "slider"],
  ["b", "blink"],
  ["x", "export"],
];
// Keys that belong to what has the focus.
const OWN = [
  ["input[type=range]", ["ArrowLeft", "ArrowRight"]],
  [":is(button, a, summary):focus-visible", ["Enter"]],
];

/**
 * Shows the groups of a report in `root`.
 * @param {object} source `overview` ({ name, groups: [[kind, id], …] }); `page(offset, limit)`
 *   gives groups as a promise, `group(number)` one of them.
 * @param {function(object)} went Told where the visitor is: { kind, group }, counted from 1.
 * @param {function(object): ?string} address Where a photo can be seen large; null for nowhere.
 */
export function review(root, source, went = () => {}, address = () => null) {
  const { groups } = source.overview;
  const store = decisionStore(source.overview.name, (sentence) => notify(sentence, "bad"));
  const place = { kind: "", group: 0 };
  const some = groups.some(([kind]) => NEEDS(kind));
  let list = [];
  let shown = null;
  let pair = 0;
  let aligned = false;
  const openExport = () => exportDialog(source, store);

  const stage = pairStage();
  const sides = ["a", "b"].map((side) => caption(() => toggleKeep(shown.pairs[pair][side]), address));
  const why = el("p.dup-why");
  const strip = el("ol.dup-strip", { "aria-label": "Photos of the group" });
  const progress = el("span.facts", { role: "status" });
  const number = el("input", {
    type: "number",
    min: "1",
    inputmode: "numeric",
    on: {
      change() {
        go(Number(number.value) - 1);
        refocus(); // the keys are those of the view again
      },
    },
  });
  const total = el("span.facts");
  const apart = button("Not a duplicate", { symbol: "close", title: "n", on: toggleApart });
  const slide = toggle("Slider", null, false, (on) => lay(on));
  const pairs = el("span.facts");
  const steps = el(
    "div.row",
    {},
    step("Previous pair", "←", () => turn(-1)),
    pairs,
    step("Next pair", "→", () => turn(1)),
  );
  const trouble = el("div");
  const body = el(
    "div.dup-body",
    {},
    stage.element,
    el("div.dup-captions", {}, ...sides.map((side) => side.element)),
    el("div.dup-reason", {}, why, el("div.row", {}, steps, slide)),
    el(
      "div.row.dup-actions",
      {},
      button("OK, next", { kind: "primary", symbol: "tick", title: "Enter", on: accept }),
      apart,
      button("Keep all", { title: "a", on: keepAll }),
      button("Undo", {
        kind: "dup-undo",
        symbol: "undo",
        title: "u",
        "aria-label": "Undo",
        on: undo,
      }),
    ),
    strip,
  );
  const element = el(
    "div.dup",
    {},
    viewHead(
      "Duplicates",
      el("p.dup-note", {}, "Nothing is deleted here: Export lists the photos that may be deleted."),
      progress,
      kindChooser(),
      el("label.field.dup-at", {}, el("span", {}, "Group"), el("div.row", {}, number, total)),
      el(
        "div.row",
        {},
        step("Previous group", "↑", () => go(at() - 1)),
        step("Next group", "↓", () => go(at() + 1)),
      ),
      button("Export", { kind: "dup-open", title: "x", on: openExport }),
    ),
    trouble,
    body,
    el("dl.dup-hints", {}, ...HINTS.map(([key, text]) => hint(key, text))),
  );
  root.append(element);

  // Where one is

  function kinds() {
    const names = Object.keys(NAMES).filter((kind) => groups.some(([own]) => own === kind));
    const named = (kind, name) => [kind, `${name} (${count(groups.filter(among(kind)).length)})`];
    return [
      some && named("", "To decide"),
      ...names.map((kind) => named(kind, NAMES[kind])),
      named(ALL, "All"),
    ].filter(Boolean);
  }

  /** A list of kinds; a mouse that has chosen one leaves it, as its letters are keys of the view. */
  function kindChooser() {
    let pointed = false;
    const made = chooser("Kind", kinds(), "", (kind) => {
      start({ kind });
      if (pointed) document.activeElement.blur();
      pointed = false;
    });
    made.addEventListener("pointerdown", () => (pointed = true));
    return made;
  }

  /** Whether a group is shown for a choice of kinds. */
  function among(kind) {
    if (kind === ALL) return () => true;
    return kind ? ([own]) => own === kind : ([own]) => NEEDS(own);
  }

  const at = () => list.indexOf(place.group);

  /** Begins with a kind at a group, counted from 1, or at the first that is not decided. */
  function start({ kind = "", group = 0 }) {
    const known = kind === ALL || (kind ? groups.some(([own]) => own === kind) : some);
    place.kind = known ? kind : some ? "" : ALL;
    element.querySelector("select").value = place.kind;
    list = groups.flatMap((group, all) => (among(place.kind)(group) ? [all] : []));
    const open = list.findIndex((all) => !store.decided(groups[all][1]));
    const wanted = list.indexOf(Number(group) - 1);
    body.hidden = !list.length;
    if (list.length) go(wanted >= 0 ? wanted : Math.max(open, 0));
    else trouble.replaceChildren(nothing("The report has no duplicates."));
  }

  /** Shows the group at a place of the list. */
  async function go(wanted, first = 0) {
    if (Number.isNaN(wanted) || !list.length) return;
    if (wanted >= list.length) notify(`That was the last group: ${decidedText()}.`);
    const position = Math.min(Math.max(wanted, 0), list.length - 1);
    place.group = list[position];
    set(number, "max", list.length);
    number.value = String(position + 1);
    total.textContent = `of ${count(list.length)}`;
    went({ kind: place.kind, group: place.group + 1 });
    body.setAttribute("aria-busy", "true");
    const mine = place.group;
    try {
      const group = await source.group(mine);
      if (mine !== place.group) return; // somebody went on meanwhile
      trouble.replaceChildren();
      shown = { ...group, pairs: group.pairs.map(ordered) };
      pair = first;
      draw();
      const after = list[position + 1];
      if (after !== undefined) source.group(after).then(fetchPictures, () => {});
    } catch (error) {
      if (mine !== place.group) return;
      shown = null;
      trouble.replaceChildren(problem(error, () => go(position)));
    } finally {
      if (mine === place.group) {
        body.hidden = !shown;
        body.removeAttribute("aria-busy");
      }
    }
  }

  function turn(by) {
    if (!shown) return;
    const many = shown.pairs.length;
    pair = (pair + by + many) % many;
    drawPair();
    say(`Pair ${pair + 1} of ${many}. ${shown.pairs[pair].why}`);
  }

  // What is shown

  const current = () => store.get(shown.id) ?? suggestion(shown);

  function draw() {
    strip.hidden = shown.photos.length < 3;
    strip.replaceChildren(
      ...(strip.hidden ? [] : shown.photos.map((photo, own) => stripPhoto(photo, own, showPhoto))),
    );
    steps.hidden = shown.pairs.length < 2;
    drawPair();
    const photos = counted(shown.photos.length, "photo");
    say(`Group ${at() + 1} of ${list.length}, ${shown.kind}, ${photos}.`);
  }

  function drawPair() {
    const one = shown.pairs[pair];
    const sliding = document.activeElement?.type === "range";
    const can = stage.show(shown, one, aligned);
    if (sliding && !(can && aligned)) refocus();
    const input = slide.querySelector("input");
    input.disabled = !can;
    input.checked = can && aligned;
    slide.title = can ? "s" : "These photos cannot be aligned.";
    const [reason, ...evidence] = (one.why || one.how).split("; ");
    const parts = [
      el("b.dup-kind", { "data-kind": one.kind }, pairName(one)),
      el("span.tag", { hidden: true }, "decided"),
      ` ${reason}`,
      evidence.length > 0 && el("details", {}, el("summary", {}, "Details"), evidence.join("; ")),
    ];
    why.replaceChildren(...parts.filter(Boolean));
    pairs.textContent = `Pair ${count(pair + 1)} of ${count(shown.pairs.length)}`;
    sides.forEach((side, own) => side.show(shown.photos, one[own ? "b" : "a"]));
    for (const [own, item] of [...strip.children].entries()) {
      set(item.querySelector("button"), "aria-current", own === one.a || own === one.b || null);
    }
    const inView = strip.querySelector("[aria-current]");
    if (inView) strip.scrollLeft = inView.offsetLeft - strip.offsetLeft - 40;
    drawDecision();
  }

  function drawDecision() {
    const decision = current();
    const becomes = outcome(shown, decision);
    const one = shown.pairs[pair];
    why.querySelector(".tag").hidden = !store.decided(shown.id);
    body.dataset.apart = String(decision.apart.includes(pair));
    set(apart, "aria-pressed", decision.apart.includes(pair) ? "true" : "false");
    sides.forEach((side, own) => side.decide(becomes[one[own ? "b" : "a"]]));
    [...strip.children].forEach((item, own) => {
      item.dataset.state = becomes[own];
      item.querySelector("small").textContent = STATES[becomes[own]];
    });
    progress.textContent = decidedText();
  }

  function decidedText() {
    const decided = list.filter((all) => store.decided(groups[all][1])).length;
    return `${count(decided)} of ${count(list.length)} decided`;
  }

  /** A view that is near-identical is a burst only where the times of both photos say so. */
  function pairName({ kind, a, b }) {
    const timed = kind === "burst" && [a, b].every((own) => shown.photos[own].taken);
    return timed ? "Burst" : (PAIRS[kind] ?? kind);
  }

  function showPhoto(wanted) {
    const found = shown.pairs.findIndex(({ a, b }) => a === wanted || b === wanted);
    if (found < 0) return;
    pair = found;
    drawPair();
  }

  // What is decided

  function decide(change) {
    if (!shown) return;
    store.decide(shown.id, { ...current(), done: false, ...change });
    drawDecision();
  }

  function keepOnly(wanted) {
    if (!shown?.photos[wanted]) return;
    decide({ keep: [wanted] });
    say(`Keep ${shown.photos[wanted].name}.`);
  }

  function toggleKeep(wanted) {
    const { keep } = current();
    const others = keep.filter((one) => one !== wanted);
    if (keep.includes(wanted) && !others.length) {
      notify("At least one photo must be kept: choose another one first.");
      return;
    }
    decide({ keep: others.length < keep.length ? others : [...keep, wanted] });
  }

  function keepAll() {
    decide({ keep: shown?.photos.map((_, own) => own) });
  }

  function toggleApart() {
    if (!shown) return;
    const before = current().apart;
    const others = before.filter((one) => one !== pair);
    const now = others.length < before.length ? others : [...before, pair];
    decide({ apart: now });
    say(now.length > before.length ? "Not a duplicate." : "A duplicate.");
    // In a group of more than two, the next pair is what one wants to see.
    if (now.length > before.length && !dissolved(shown, { apart: now })) turn(1);
  }

  function accept() {
    if (!shown) return;
    decide({ done: true });
    go(at() + 1);
  }

  function undo() {
    const id = store.undo();
    if (!id) {
      notify("There is nothing to undo.");
      return;
    }
    const wanted = groups.findIndex(([, own]) => own === id);
    say("Undone.");
    if (wanted === place.group) drawDecision();
    else if (list.includes(wanted)) go(list.indexOf(wanted));
    else start({ kind: ALL, group: wanted + 1 });
  }

  function lay(on) {
    aligned = on;
    if (!shown) return;
    drawPair();
    if (slide.querySelector("input").checked) stage.focus();
  }

  function blink() {
    if (!aligned) lay(true);
    stage.blink();
  }

  const actions = {
    ArrowDown: () => go(at() + 1),
    ArrowUp: () => go(at() - 1),
    ArrowRight: () => turn(1),
    ArrowLeft: () => turn(-1),
    ".": () => turn(1),
    ",": () => turn(-1),
    Home: () => go(0),
    End: () => go(list.length - 1),
    a: keepAll,
    n: toggleApart,
    u: undo,
    s: () => lay(!aligned),
    b: blink,
    x: openExport,
    Enter: accept,
    ...Object.fromEntries([...Array(9).keys()].map((own) => [own + 1, () => keepOnly(own)])),
  };
  return {
    start,
    place,
    leave: stage.leave,
    /** Ids of the photos that are shown. */
    get photos() {
      return shown?.photos.map(({ id }) => id).filter(Boolean);
    },
    get keys() {
      const own = OWN.find(([kind]) => document.activeElement?.matches(kind))?.[1] ?? [];
      return Object.fromEntries(Object.entries(actions).filter(([key]) => !own.includes(key)));
    },
  };
}

const step = (name, sign, on) =>
  button(sign, { kind: "icon-button", "aria-label": name, title: name, on });

const hint = (keys, text) =>
  el(
    "div",
    {},
    el("dt", {}, ...keys.split(" ").map((key) => el("kbd", {}, key))),
    el("dd", {}, text),
  );

/** What is known of a photo, and whether it is kept. */
function caption(toggled, address) {
  const keep = button("Keep", { kind: "dup-keep", symbol: "tick", on: toggled });
  const state = el("small.dup-state");
  const name = el("div.dup-name");
  const facts = el("span.soft");
  const element = el("div.dup-caption", {}, keep, el("div.dup-title", {}, name, state), facts);
  return {
    element,
    show(photos, number) {
      const photo = photos[number];
      const file = shortName(photo.name);
      // Copies often have the same name in another folder.
      const folder = photo.name.slice(0, photo.name.length - file.length);
      name.replaceChildren(
        el("b", {}, `${number + 1}`),
        el("span.soft", {}, folder),
        named(file, address(photo)),
      );
      name.title = photo.name;
      facts.textContent = [
        photo.width && `${photo.width} × ${photo.height}`,
        photo.bytes && bytes(photo.bytes),
        photo.taken?.replace("T", " "),
        photo.why,
      ]
        .filter(Boolean)
        .join(" · ");
      keep.setAttribute("aria-label", `Keep photo ${number + 1}, ${photo.name}`);
    },
    decide(becomes) {
      element.dataset.state = becomes;
      keep.setAttribute("aria-pressed", String(becomes === "keep"));
      state.textContent = becomes === "keep" ? "" : STATES[becomes];
    },
  };
}

const named = (file, href) => (href ? el("a", { href }, file) : el("b", {}, file));

/** A small photo of the group; a click shows a pair that it is in. */
function stripPhoto(photo, number, chosen) {
  const address = photo.thumbnail ?? photo.photo;
  return el(
    "li",
    {},
    el(
      "button",
      {
        type: "button",
        title: photo.name,
        "aria-label": `Show photo ${number + 1}, ${photo.name}`,
        on: { click: () => chosen(number) },
      },
      address ? el("img", { src: address, alt: "", loading: "lazy" }) : icon("photo"),
      el("span.dup-number", {}, String(number + 1)),
    ),
    el("small"),
  );
}

/** Has the browser get the photos of the pair that is seen first, before somebody goes there. */
function fetchPictures(group) {
  const [first] = group.pairs;
  for (const own of first ? [first.a, first.b] : []) {
    const address = group.photos[own].photo;
    if (address) new Image().src = address;
  }
}
