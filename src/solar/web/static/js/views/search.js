// Search: a photo or words on the left, a box on the photo, what is like them on the right.

import { isAbort } from "../api.js";
import { boxEditor } from "../box_editor.js";
import * as boxes from "../boxes.js";
import { card } from "../card.js";
import { button, el, linkButton } from "../dom.js";
import { endless } from "../endless.js";
import { filterFields } from "../filters/fields.js";
import { pinned, resolved, without } from "../filters/links.js";
import { shelf } from "../filters/shelf.js";
import { HITS } from "../filters/sorting.js";
import { createGrid } from "../grid.js";
import * as marks from "../judged.js";
import { nothing, notify, problem, say } from "../notice.js";
import { field, methodsOf, refill, searchOptions, searchRequest, toggle } from "../options.js";
import * as parts from "../parts.js";
import { photo } from "../photos.js";
import { picker } from "../picker.js";
import * as route from "../route.js";
import { searchFor } from "../searches.js";
import { stageLine, summary } from "../stages.js";
import { suggestedBoxes } from "../suggested.js";
import { offered, reader, reads, textForm } from "../text_query.js";
import { filePicker, uploadAll } from "../upload.js";
import { opening, searchWith } from "../viewer/address.js";
import { count, shortName, VERDICTS } from "../words.js";
import { whyAddress } from "./why.js";

// So far down, in pixels, somebody reads the results.
const SCROLLED = 60;

// The result that had the focus last, and of which search: who comes back to it goes on there.
let reached = {};

const to = (params) => route.address("search", [], params);

/** Makes the view in `root`. */
export function search(root, shared) {
  let content = null;
  let before = null;
  return {
    title: "Search",
    /** Gives whether the page shows another photo than before. */
    show({ params, hash }) {
      if (pinned(params)) {
        content?.leave();
        content = null;
        settle(root, params, hash);
        return true;
      }
      shared.query = params.q ?? null;
      shared.box = boxes.read(params.box);
      const query = params.q || (params.text ? "" : null);
      const stays = content && content.query === query;
      const { photo: _, near: __, ...asked } = params;
      const another = query !== null && JSON.stringify(asked) !== JSON.stringify(before);
      before = asked;
      if (!stays) {
        content?.leave();
        root.replaceChildren();
        content = query === null ? start(root, shared) : results(root, shared, params);
      }
      content.show?.(params);
      return !stays || another;
    },
    leave: () => content?.leave(),
    hit: (id) => content?.hit?.(id),
    actions: (hit) => content?.actions?.(hit) ?? [],
    removed: (gone) => content?.removed?.(gone),
    get keys() {
      return content?.keys;
    },
  };
}

/** Goes on to where the photos of a link, which it has by name, are found now. */
async function settle(root, params, hash) {
  root.replaceChildren();
  try {
    const now = to(await resolved(params));
    if (location.hash === hash) route.go(now, { replace: true });
  } catch (error) {
    if (location.hash !== hash) return;
    root.replaceChildren(problem(error), linkButton("Start again", "#/", "back"));
  }
}

/** Before there is a query. */
function start(root, shared) {
  let params = {};
  const { models } = shared.info;
  const model = reader(shared.info);
  const { element, photos } = picker({
    title: "Find photos of the same place",
    text: model
      ? "Choose a photo of a place or an object, or describe it in words."
      : "Choose a photo of a place or an object to find others that show it.",
    actions: (one) => [
      { text: "Search", href: to({ q: one.id }) },
      { text: "Attention map", symbol: "look", href: route.address("look", [one.id]) },
    ],
    take: shared.receive,
    shelving: {
      info: shared.info,
      change: (patch) => route.go(to({ ...params, ...patch }), { replace: true }),
    },
    more:
      model &&
      textForm("", (text) => route.go(to({ text, model: model === models[0] ? "" : model.name }))),
  });
  root.append(element);
  const { tools } = photos;
  const onCurrent = (act) => {
    const id = photos.current;
    return id && (() => act(id));
  };
  return {
    query: null,
    show(next) {
      params = next;
      photos.show(params);
    },
    leave: photos.stop,
    removed: tools.removed,
    actions: (one) => tools.actions(one),
    keys: {
      __proto__: tools.keys(onCurrent),
      "/": photos.find,
      t: () => element.querySelector("[name=text]")?.focus(),
      ArrowDown: photos.focus,
      get l() {
        const id = photos.current;
        return id && (() => route.go(route.address("look", [id])));
      },
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
    changed(gone) {
      if (!gone) {
        find();
        return;
      }
      judging.forget(gone);
      const patch = without(params, gone);
      if (gone.has(query)) route.go("#/");
      else if (Object.keys(patch).length) change(patch, { replace: true });
      else find();
    },
  });
  const known = filterFields((patch) => change(patch, { replace: true }));
  const judging = marks.judged(grid.element, change, info.features.judge);
  const title = el("h1.found", { role: "status" });
  const checking = el("span.soft");
  const reorder = button("Show the checked order", { on: () => render(true, true) });
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
  const more = endless(async () => {
    const mine = current;
    const hits = await mine.next(running.signal);
    if (mine === current) grid.append(hits);
    tools.paint();
    return mine.more;
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
  // The search itself says what is wrong with a photo that cannot be had.
  if (query) photo(query).then(build, () => panel.append(linkButton("Start again", "#/", "back")));

  const attends = () =>
    (info.models.find(({ name }) => name === params.model) ?? info.models[0]).attention.length > 0;

  /** What can be done with a result; the first is a button of its own. */
  function actions(hit) {
    const { box } = params;
    const why = query && whyAddress(shared.info, query, hit.id, params);
    return [
      { text: "Search", href: searchWith(hit.id, { view: "search", params }) },
      ...judging.actions(hit.id),
      { text: "Add to this search", symbol: "add", on: () => addPart(hit.id) },
      query && {
        text: "Matching details",
        symbol: "match",
        href: route.address("match", [query, hit.id], { box }),
      },
      why && { text: "What looks alike", symbol: "why", href: why },
      attends() && { text: "Attention map", symbol: "look", href: route.address("look", [hit.id]) },
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

  async function addFile(files) {
    try {
      for (const { id } of await uploadAll(files.slice(0, 1), shared.info)) addPart(id);
    } catch (error) {
      notify(error.message, "bad");
    }
  }

  const partList = el("div.part-list");
  let partsShown = null;

  function showParts() {
    const all = parts.read(params);
    const wanted = JSON.stringify(all);
    if (wanted === partsShown) return;
    partsShown = wanted;
    partList.replaceChildren(
      ...[parts.strip(all, (next) => change(parts.written(next)))].filter(Boolean),
    );
  }

  const filters = {};
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

  /** Shows the field for words where the model reads them, or there are some. */
  function showWords() {
    words.hidden = !params.text && !reads(shared.info, params);
    const input = words.querySelector("input");
    if (input !== document.activeElement) input.value = params.text ?? "";
  }

  function build(found) {
    editor = boxEditor(found, (box) => {
      told = boxes.written(box);
      change({ box: told });
    });
    told = boxes.written(shared.box);
    editor.show(shared.box);
    editor.element.addEventListener("click", () => panel.classList.add("open"));
    const { name } = found;
    panel.replaceChildren(
      editor.element,
      el("a.query-name", { ...opening(query), title: name }, shortName(name)),
      el(
        "div.row",
        {},
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
        filePicker("Add to this search", { kind: "" }, addFile),
        linkButton("Clear", "#/", "close"),
      ),
      words,
      partList,
      ...folds(),
    );
    showBoxButton();
  }

  if (!query) {
    panel.append(
      words,
      el(
        "div.row",
        {},
        filePicker("Add to this search", { kind: "" }, addFile),
        linkButton("Clear", "#/", "close"),
      ),
      ...folds(),
    );
  }

  function scoreFields() {
    filters.name = field("Words in the name", { type: "search", value: params.name ?? "" }, (name) =>
      change({ name }, { replace: true }),
    );
    filters.label = shared.info.features.labels
      ? field(
          "Label is",
          { type: "search", list: "labels", value: params.label ?? "" },
          (label) => change({ label }, { replace: true }),
          (label) => !label || labels().includes(label),
        )
      : null;
    filters.min = field(
      "Score at least",
      {
        type: "number",
        min: "-1",
        max: "1",
        step: "0.05",
        value: params.min ?? "",
        placeholder: "any",
      },
      (min) => change({ min }, { replace: true }),
    );
    filters.probable = shared.info.features.probability
      ? field(
          "Same place, %",
          {
            type: "number",
            min: "0",
            max: "100",
            step: "5",
            value: params.probable ?? "",
            placeholder: "any",
          },
          (probable) => change({ probable }, { replace: true }),
        )
      : null;
    const truth =
      info.features.labels &&
      toggle("Mark right and wrong", "By the labels of the photos.", Boolean(params.truth), (on) =>
        change({ truth: on && "1" }, { replace: true }),
      );
    return [
      el("div.filter-fields", {}, filters.name, filters.label, el("datalist", { id: "labels" })),
      el("div.more", {}, el("div.filter-fields", {}, filters.min, filters.probable), truth),
    ];
  }

  /** Filters, and what only those want who know the models. */
  function folds() {
    const [simple, advanced] = scoreFields();
    return [
      el("details.fold", {}, el("summary", {}, "Filters"), el("div.more", {}, simple, known.element)),
      el(
        "details.fold",
        {},
        el("summary", {}, "Advanced"),
        el("div.more", {}, optionList, advanced, known.advanced),
      ),
    ];
  }

  /** Unfolds the filters; gives whether they are there, which they are with the query. */
  function unfold() {
    const folded = panel.querySelector("details");
    if (folded) folded.open = true;
    return Boolean(folded);
  }

  function filter() {
    if (unfold()) filters.name.querySelector("input").focus();
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
    const model = info.models.find(({ name }) => name === params.model) ?? info.models[0];
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

  /** What a key does with the card that has the focus. */
  function onCurrent(act) {
    const id = grid.current;
    return id && (() => act(id));
  }

  /** Whether somebody is at the results, so that none of them may move away. */
  const watched = () =>
    touched || scrollY > SCROLLED || document.querySelector("dialog[open], .menu");

  function render(glide, wanted = false) {
    showHeading();
    if (glide && !wanted && watched()) {
      grid.update(current.hits);
      reorder.hidden = !grid.differs(current.hits);
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
    query,
    hit: (id) => current?.hits.find((one) => one.id === id),
    actions,
    removed: tools.removed,
    show(next) {
      params = next;
      grid.remember(reached.at === to(params) ? reached.id : null);
      showOptions();
      showWords();
      showParts();
      judging.show(params);
      tools.show(params);
      known.show(params);
      panel.classList.toggle("open", Boolean(params.box));
      // What the editor itself has told is there already, and may have moved on since.
      if (editor && told !== boxes.written(shared.box)) {
        told = boxes.written(shared.box);
        editor.show(shared.box);
      }
      for (const [name, part] of Object.entries(filters)) {
        const input = part?.querySelector("input");
        if (input && input !== document.activeElement) input.value = params[name] ?? "";
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
      __proto__: tools.keys(onCurrent),
      "/": () => {
        if (unfold()) filters.name.querySelector("input").focus();
      },
      t: () => words.hidden || words.querySelector("input").focus(),
      b: () => editor?.begin(),
      ArrowDown: grid.focus,
      s: judging.search,
      get "+"() {
        return onCurrent((id) => judging.toggle(id, "like"));
      },
      get "-"() {
        return onCurrent((id) => judging.toggle(id, "unlike"));
      },
      get a() {
        return onCurrent(addPart);
      },
      get l() {
        const id = grid.current;
        return id && (() => route.go(route.address("look", [id])));
      },
      get w() {
        const address =
          query && grid.current && whyAddress(shared.info, query, grid.current, params);
        return address && (() => route.go(address));
      },
      get m() {
        const id = query && grid.current;
        return id && (() => route.go(route.address("match", [query, id], { box: params.box })));
      },
    },
  };
}
