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
import { field, methodsOf, refill, searchOptions, searchRequest } from "../options.js";
import * as parts from "../parts.js";
import { photo } from "../photos.js";
import { picker } from "../picker.js";
import * as route from "../route.js";
import { searchFor } from "../searches.js";
import { stageLine, summary } from "../stages.js";
import { offered, reader, reads, textForm } from "../text_query.js";
import { filePicker, upload } from "../upload.js";
import { opening, searchWith } from "../viewer/address.js";
import { shortName } from "../words.js";
import { whyAddress } from "./why.js";

const WIDE = matchMedia("(min-width: 861px)");

const SAME = 0.5;

// The result that had the focus last, and of which search: who comes back to it goes on there.
let reached = {};

const to = (params) => route.address("search", [], params);

/** Makes the view in `root`. */
export function search(root, shared) {
  let content = null;
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
      if (!stays) {
        content?.leave();
        root.replaceChildren();
        content = query === null ? start(root, shared) : results(root, shared, params);
      }
      content.show?.(params);
      return !stays;
    },
    leave: () => content?.leave(),
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
    links: (id) => ({ search: to({ q: id }), look: route.address("look", [id]) }),
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
  const same = (one) => one.probability == null || one.probability >= SAME;
  if (same(hit) || (before && !same(before))) return null;
  const text = before
    ? "Similar, but probably another place"
    : "Probably no photo of the same place; similar photos:";
  return el("li.divider", {}, text);
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
        card(hit, links(hit), { foot: judging.row(hit, addButton(hit), searchLink(hit)) }),
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
    removed(gone) {
      judging.forget(gone);
      const patch = without(params, gone);
      if (gone.has(query)) route.go("#/");
      else if (Object.keys(patch).length) change(patch, { replace: true });
      else find();
    },
  });
  const known = filterFields((patch) => change(patch, { replace: true }));
  const judging = marks.judged(grid.element, change, info.features.judge);
  const line = el("div.stage-line");
  const state = el("div");
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
    line,
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

  function links(hit) {
    const { box } = params;
    return {
      look: route.address("look", [hit.id]),
      match: query && route.address("match", [query, hit.id], { box }),
      why: query && whyAddress(shared.info, query, hit.id, params),
    };
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

  async function addFile([file]) {
    try {
      addPart((await upload(file, shared.info)).id);
    } catch (error) {
      notify(error.message, "bad");
    }
  }

  const addButton = (hit) =>
    button("", {
      kind: "judge-button",
      symbol: "add",
      title: "Add to the query",
      "aria-label": `Add to the query: ${hit.name}`,
      tabindex: "-1",
      on: () => addPart(hit.id),
    });

  const searchLink = (hit) => {
    const href = searchWith(hit.id, { view: "search", params });
    const link = linkButton("", href, "search");
    link.classList.add("judge-button");
    link.title = link.ariaLabel = `Search with ${hit.name}`;
    link.tabIndex = -1;
    return link;
  };

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
    const { name } = found;
    panel.replaceChildren(
      editor.element,
      el(
        "div.query-foot",
        {},
        el("a.query-name", { ...opening(query), title: name }, shortName(name)),
        found.label && el("span.tag", {}, found.label),
      ),
      el(
        "div.row",
        {},
        button("Box", {
          symbol: "box",
          id: "box-button",
          on: () => (editor.box ? editor.clear() : editor.begin()),
        }),
        button("Another box", {
          symbol: "add",
          id: "another-box",
          on() {
            const [mine, ...others] = parts.read(params);
            addParts([{ id: query, box: boxes.central(found) }, mine, ...others]);
          },
        }),
        linkButton("Look", route.address("look", [query]), "look"),
        linkButton("New", "#/", "close"),
        filePicker("Add a photo", { kind: "" }, addFile),
      ),
      words,
      partList,
      optionsAndFilters(),
    );
    showBoxButton();
  }

  if (!query) {
    panel.append(
      words,
      el(
        "div.row",
        {},
        filePicker("Add a photo", { kind: "" }, addFile),
        linkButton("New", "#/", "close"),
      ),
      optionsAndFilters(),
    );
  }

  function scoreFields() {
    filters.name = field("Name contains", { type: "search", value: params.name ?? "" }, (name) =>
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
    return el(
      "div.filter-fields",
      {},
      filters.name,
      filters.label,
      filters.min,
      filters.probable,
      el("datalist", { id: "labels" }),
    );
  }

  /** Options and filters: folded on a phone, where the results are what one came for. */
  function optionsAndFilters() {
    const content = el("div.more", {}, optionList, scoreFields(), known.element);
    const folded = el(
      "details",
      { open: WIDE.matches },
      el("summary", {}, "Options and filters"),
      content,
    );
    WIDE.addEventListener("change", () => (folded.open = WIDE.matches), { signal: left.signal });
    return folded;
  }

  /** Unfolds the options and filters; gives whether they are there, which they are with the query. */
  function unfold() {
    const folded = panel.querySelector("details");
    if (folded) folded.open = true;
    return Boolean(folded);
  }

  function filter() {
    if (unfold()) known.focus();
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
      showLine();
      try {
        await current.run(
          () => mine === running && render(current.answers.length > 1),
          mine.signal,
        );
      } catch (error) {
        if (isAbort(error) || mine !== running) return;
        grid.set([]);
        line.replaceChildren();
        state.replaceChildren(problem(error, find));
      }
    }
    if (mine !== running) return;
    list.removeAttribute("aria-busy");
    if (current.complete) say(summary(current.answers));
    if (current.more) more.start();
  }

  function showLine() {
    line.replaceChildren(stageLine(current.answers, current.awaited));
  }

  /** What a key does with the card that has the focus. */
  function onCurrent(act) {
    const id = grid.current;
    return id && (() => act(id));
  }

  function render(glide) {
    grid.set(current.hits, { glide });
    tools.paint();
    showLine();
    if (current.complete && !current.hits.length) {
      state.replaceChildren(nothing("No results match these filters."));
    }
    panel
      .querySelector("#labels")
      ?.replaceChildren(...labels().map((value) => el("option", { value })));
  }

  return {
    query,
    show(next) {
      params = next;
      grid.remember(reached.at === to(params) ? reached.id : null);
      showOptions();
      showWords();
      showParts();
      judging.show(params);
      tools.show(params);
      known.show(params);
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
