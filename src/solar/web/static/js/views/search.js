// Search: a photo or words on the left, a box on the photo, what is like them on the right.

import { isAbort } from "../api.js";
import { boxEditor } from "../box_editor.js";
import * as boxes from "../boxes.js";
import { card } from "../card.js";
import { button, el, linkButton, refill, refocus, unfocused } from "../dom.js";
import { endless } from "../endless.js";
import { filterFields, follow } from "../filters/fields.js";
import { pinned, resolved, without } from "../filters/links.js";
import { shelf } from "../filters/shelf.js";
import { HITS } from "../filters/sorting.js";
import { createGrid } from "../grid.js";
import * as marks from "../judged.js";
import { nothing, notify, problem, say, telling } from "../notice.js";
import { field, methodsOf, searchOptions, searchRequest, toggle } from "../options.js";
import * as parts from "../parts.js";
import { photo } from "../photos.js";
import { picker } from "../picker.js";
import * as route from "../route.js";
import { searchFor } from "../searches.js";
import { stageLine, summary } from "../stages.js";
import { suggestedBoxes } from "../suggested.js";
import { offered, reader, textForm } from "../text_query.js";
import { filePicker, uploadAll } from "../upload.js";
import { opening, searchWith } from "../viewer/address.js";
import { looks, modelOf, ways } from "../ways.js";
import { count, shortName, VERDICTS } from "../words.js";
import { remade } from "./remade.js";

// So far down, in pixels, somebody reads the results.
const SCROLLED = 60;

// The result that had the focus last, and of which search: who comes back to it goes on there.
let reached = {};

const to = (params) => route.address("search", [], params);

/** Makes the view in `root`. */
export function search(root, shared) {
  let before = null;
  const queryOf = ({ q, text }) => q || (text ? "" : null);
  const about = ({ params, hash }) => (pinned(params) ? { hash } : queryOf(params));
  const make = ({ params, hash }) => {
    if (pinned(params)) return settle(root, params, hash);
    return queryOf(params) === null ? start(root, shared) : results(root, shared, params);
  };
  const view = remade(root, "Search", about, make, {
    hit: (id) => view.content.hit?.(id),
    actions: (hit) => view.content.actions?.(hit) ?? [],
  });
  const { show } = view;
  /** Gives whether the page shows another photo, or another search, than before. */
  view.show = (place) => {
    const { photo: _, near: __, ...asked } = place.params;
    const another = queryOf(asked) !== null && JSON.stringify(asked) !== JSON.stringify(before);
    before = asked;
    shared.query = asked.q ?? null;
    shared.box = boxes.read(asked.box);
    return show(place) || another;
  };
  return view;
}

/** Goes on to where the photos of a link, which it has by name, are found now. */
function settle(root, params, hash) {
  const here = () => location.hash === hash;
  resolved(params).then(
    (now) => here() && route.go(to(now), { replace: true }),
    (error) => here() && root.append(problem(error), linkButton("Start again", "#/", "back")),
  );
  return {};
}

/** Before there is a query. */
function start(root, shared) {
  let params = {};
  const { models } = shared.info;
  const model = reader(shared.info);
  const { photos, leave, keys } = picker(root, {
    title: "Find photos of the same place",
    text: model
      ? "Choose a photo of a place or an object, or describe it in words."
      : "Choose a photo of a place or an object to find others that show it.",
    actions: ({ id }) => ways(shared.info, id),
    take: shared.receive,
    shelving: {
      info: shared.info,
      change: (patch) => route.go(to({ ...params, ...patch }), { replace: true }),
    },
    more:
      model &&
      textForm("", (text) => route.go(to({ text, model: model === models[0] ? "" : model.name }))),
  });
  return {
    show(next) {
      params = next;
      photos.show(params);
    },
    leave,
    actions: photos.tools.actions,
    keys: {
      __proto__: photos.tools.keys,
      ...keys,
      t: () => root.querySelector("[name=text]")?.focus(),
    },
  };
}

/** A line where the same place probably ends and what only looks like it begins. */
function divider(before, hit) {
  const ends = hit.verdict === "similar" && before && before.verdict !== "similar";
  return ends ? el("li.divider", {}, VERDICTS.similar) : null;
}

/** Once there is one: a photo, words, or both; `query` is empty for words alone. */
function results(root, shared, first) {
  const query = first.q ?? "";
  let params = first;
  let running = null;
  let current = null;
  let editor = null;
  let told = null;
  const left = new AbortController();

  const info = offered(shared.info, first);
  // Words are not asked what fits point by point, unless a visitor does.
  const usual = () => (params.text ? [] : shared.info.features.usual);
  const grid = createGrid(
    "Results",
    (hit) =>
      tools.on(
        judging.on(card(hit, { actions: () => actions(hit), truth: Boolean(params.truth) })),
        hit,
      ),
    // In another order, what is the same place and what is not go through each other.
    (before, hit) =>
      params.sort && params.sort !== "probability" ? null : divider(before, hit),
  );
  grid.element.addEventListener("focusin", () => (reached = { at: to(params), id: grid.current }));
  const tools = shelf({
    info,
    orders: HITS,
    change: (patch) => change(patch, { replace: true }),
    filter,
    changed(gone = new Set()) {
      judging.forget(gone);
      const patch = without(params, gone);
      if (gone.has(query)) route.go("#/");
      else if (Object.keys(patch).length) change(patch, { replace: true });
      else find();
    },
  });
  const known = filterFields((patch) => change(patch, { replace: true }));
  const judging = marks.judged(grid.element, change, info.features.map);
  const title = el("h1.found", { role: "status" });
  const checking = el("span.soft");
  const reorder = button("Show the checked order", {
    on() {
      render(true, true);
      grid.focus();
    },
  });
  const stages = el("div");
  const details = el("details.search-details", {}, el("summary", {}, "Details"), stages);
  const state = el("div");
  let touched = false; // whether somebody has been at these results
  for (const kind of ["pointermove", "pointerdown", "keydown"]) {
    grid.element.addEventListener(kind, ({ movementX, movementY }) => {
      // Browsers tell of pointers that rest, too, when cards move below them.
      if (kind !== "pointermove" || movementX || movementY) touched = true;
    });
  }
  const more = endless(async (signal) => {
    grid.append(await current.next(signal));
    tools.paint();
    return current.more;
  });
  const panel = el("aside.panel", { "aria-label": "The query and its options" });
  const list = el(
    "section.results",
    { "aria-label": "Results" },
    el("div.found-head", {}, title, checking, reorder, details),
    tools.tools,
    judging.element,
    grid.element,
    state,
    more.element,
    tools.below(grid.element),
  );
  root.append(el("div.search", {}, panel, list));

  /** What can be done with a result; the first is a button of its own. */
  function actions(hit) {
    return [
      { text: "Search", href: searchWith(hit.id, { view: "search", params }) },
      ...judging.actions(hit.id),
      { text: "Add to this search", symbol: "add", key: "a", on: () => addPart(hit.id) },
      ...looks(shared.info, hit.id, { ...params, q: query }),
      ...tools.actions(hit),
    ];
  }

  function change(patch, options) {
    route.go(to({ ...params, ...patch }), options);
  }

  /** Searches with parts of which one is new. */
  function addParts(all) {
    if (all.length > parts.MOST) notify(`A query has at most ${parts.MOST} parts.`, "bad");
    else change(parts.written(all));
  }

  const addPart = (id) =>
    query ? addParts([...parts.read(params), { id, box: null }]) : change({ q: id });

  const addFile = telling(async (files) => {
    for (const { id } of await uploadAll(files.slice(0, 1), shared.info)) addPart(id);
  });

  const partList = el("div.part-list");
  let partsShown = null;

  function showParts() {
    const all = parts.read(params);
    const wanted = JSON.stringify(all);
    if (wanted === partsShown) return;
    partsShown = wanted;
    refill(partList, [parts.strip(all, (next) => change(parts.written(next)))]);
  }

  const optionList = el("div.options");
  let optionsShown = null;

  /** Sets the options as the address says, and leaves them alone where they are so already. */
  function showOptions() {
    const wanted = JSON.stringify([params.model, methodsOf(params, usual())]);
    if (wanted === optionsShown) return;
    optionsShown = wanted;
    refill(optionList, searchOptions(info, params, change, usual()));
  }

  const words = textForm(first.text ?? "", (text) => change({ text, like: "", unlike: "" }));

  function build(found) {
    editor = boxEditor(found, (box) => {
      told = boxes.written(box);
      if (!box && unfocused()) refocus(row.querySelector("button"));
      change({ box: told });
    });
    told = boxes.written(shared.box);
    editor.show(shared.box);
    editor.element.addEventListener("click", () => panel.classList.add("open"));
    const { name } = found;
    row.prepend(
      button("Box", {
        symbol: "box",
        id: "box-button",
        on() {
          panel.classList.toggle("open", !editor.box);
          if (editor.box) editor.clear();
          else editor.begin();
        },
      }),
      button("Another box", {
        symbol: "add",
        id: "another-box",
        on() {
          const [mine, ...others] = parts.read(params);
          addParts([{ id: query, box: boxes.central(found) }, mine, ...others]);
        },
      }),
    );
    const title = el("a.query-name", { ...opening(query), title: name }, shortName(name));
    const hint = el("p.frames-hint", {}, "Click a dashed frame to search with that part.");
    panel.replaceChildren(editor.element, hint, title, row, words, ...below);
    showBoxButton();
  }

  const row = el(
    "div.row",
    {},
    filePicker("Add to this search", { kind: "" }, addFile),
    linkButton("Clear", "#/", "close"),
  );
  const { labels: labelled, probability } = info.features;
  const set = (name) => (value) => change({ [name]: value }, { replace: true });
  const typed = (name, text, given, ready) =>
    field(text, { type: "search", ...given, value: first[name] ?? "" }, set(name), ready);
  const number = { type: "number", placeholder: "any" };
  const percent = { ...number, min: "0", max: "100", step: "5" };
  const filters = {
    name: typed("name", "Words in the name"),
    label:
      labelled &&
      typed("label", "Label is", { list: "labels" }, (one) => !one || labels().includes(one)),
    min: typed("min", "Score at least", { ...number, min: "-1", max: "1", step: "0.05" }),
    probable: probability && typed("probable", "Same place, %", percent),
  };
  const below = [partList, ...folds()];
  // The search itself says what is wrong with a photo that cannot be had.
  if (query) photo(query).then(build, () => panel.append(linkButton("Start again", "#/", "back")));
  else panel.append(words, row, ...below);

  /** Filters, and what only those want who know the models. */
  function folds() {
    const { name, label, min, probable } = filters;
    const fold = (text, ...inside) =>
      el("details.fold", {}, el("summary", {}, text), el("div.more", {}, ...inside));
    const fields = (...all) => el("div.filter-fields", {}, ...all);
    const truth =
      labelled &&
      toggle("Mark right and wrong", "By the labels of the photos.", Boolean(params.truth), (on) =>
        set("truth")(on && "1"),
      );
    return [
      fold("Filters", fields(name, label, el("datalist", { id: "labels" })), known.element),
      fold("Advanced", optionList, fields(min, probable), truth, known.advanced),
    ];
  }

  /** Unfolds the filters, which are there with the query, and goes to them. */
  function filter() {
    const folded = panel.querySelector("details");
    if (!folded) return;
    folded.open = true;
    filters.name.querySelector("input").focus();
  }

  const labels = () => [...new Set(current.hits.map((hit) => hit.label).filter(Boolean))];

  function showBoxButton() {
    const text = panel.querySelector("#box-button span");
    if (!text) return;
    text.textContent = editor.box ? "No box" : "Box";
    panel.querySelector("#another-box").hidden = !editor.box;
  }

  async function find() {
    running?.abort();
    running = new AbortController();
    const mine = running;
    more.stop();
    touched = false;
    const asked = searchRequest(params, usual());
    const methods = info.features.rerank.map((method) => method.name);
    current = searchFor({
      ...asked,
      rerank: asked.rerank.filter((name) => methods.includes(name)),
      box: shared.box ?? undefined,
      ...parts.request(params),
      ...marks.request(params),
    });
    state.replaceChildren();
    if (current.complete) {
      render(false);
    } else {
      list.setAttribute("aria-busy", "true");
      showHeading();
      try {
        await current.run(
          () => mine === running && render(current.answers.length > 1),
          mine.signal,
        );
      } catch (error) {
        if (isAbort(error) || mine !== running) return;
        grid.set([]);
        title.textContent = "The search failed";
        checking.textContent = "";
        state.replaceChildren(problem(error, find));
      }
    }
    if (mine !== running) return;
    list.removeAttribute("aria-busy");
    if (current.complete) say(summary(current.answers));
    suggest();
    if (current.more) more.start();
  }

  let suggested = null; // the model that boxes were asked of

  /** Offers boxes on the query, once the results are there. */
  async function suggest() {
    const model = modelOf(info, params.model);
    if (!query || !model.why || suggested === model.name) return;
    suggested = model.name;
    // What nobody asked for troubles nobody where it fails.
    const boxes = await suggestedBoxes(query, params.model, left.signal).catch(() => []);
    if (suggested === model.name && !left.signal.aborted) editor?.suggest(boxes);
  }

  /** How many results are likely the same place, and what is still being done. */
  function showHeading() {
    const last = current.answers.at(-1);
    const many = current.hits.length;
    const all = `${count(many)}${current.more ? "+" : ""}`;
    const some = last?.likely ? count(last.likely) : "None";
    if (!last) title.textContent = "Searching…";
    else if (last.likely == null) title.textContent = `${all} ${many === 1 ? "photo" : "photos"}`;
    else title.textContent = `${some} likely the same place`;
    checking.textContent = last && current.awaited.length ? "Checking details…" : "";
    stages.replaceChildren(stageLine(current.answers, current.awaited));
    details.hidden = !last;
    reorder.hidden = true;
  }

  /** Whether somebody is at the results, so that none of them may move away. */
  const watched = () =>
    touched || scrollY > SCROLLED || document.querySelector("dialog[open], .menu");

  function render(glide, wanted = false) {
    showHeading();
    if (glide && !wanted && watched()) {
      grid.update(current.hits);
      reorder.hidden = !grid.differs(current.hits);
      grid.show();
    } else {
      grid.set(current.hits, { glide });
    }
    tools.paint();
    if (current.complete && !current.hits.length) {
      state.replaceChildren(nothing("No results match these filters."));
    }
    panel
      .querySelector("#labels")
      ?.replaceChildren(...labels().map((value) => el("option", { value })));
  }

  return {
    hit: (id) => current?.hits.find((one) => one.id === id),
    actions,
    show(next) {
      params = next;
      grid.remember(reached.at === to(params) ? reached.id : null);
      showOptions();
      // Words are for models that read them, and for addresses that have some.
      words.hidden = !params.text && !modelOf(shared.info, params.model).text;
      showParts();
      judging.show(params);
      tools.show(params);
      known.show(params);
      follow({ ...filters, text: words }, params);
      panel.classList.toggle("open", Boolean(params.box));
      // What the editor itself has told is there already, and may have moved on since.
      if (editor && told !== boxes.written(shared.box)) {
        told = boxes.written(shared.box);
        editor.show(shared.box);
      }
      if (editor) showBoxButton();
      find();
    },
    leave() {
      left.abort();
      running?.abort();
      more.stop();
    },
    keys: {
      __proto__: tools.keys,
      "/": filter,
      t: () => words.hidden || words.querySelector("input").focus(),
      b: () => editor?.begin(),
      ArrowDown: grid.focus,
      s: judging.search,
    },
  };
}
