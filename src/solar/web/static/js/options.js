// The controls of a search: model, expansion, verification, filters.

import { el } from "./dom.js";

const EXPANSIONS = { alpha: "Weighted", average: "Average" };
let serial = 0;

/** Radio buttons that look like one switch with several positions. */
export function segmented(legend, choices, value, changed) {
  const name = `choice-${++serial}`;
  const parts = choices.map(([key, text]) =>
    el(
      "label",
      {},
      el("input", {
        type: "radio",
        name,
        value: key,
        checked: key === value,
        on: { change: () => changed(key) },
      }),
      el("span", {}, text),
    ),
  );
  return el("fieldset.segmented", {}, el("legend", {}, legend), el("div", {}, ...parts));
}

/** A checkbox that looks like a switch. */
export function toggle(text, hint, value, changed) {
  const input = el("input", {
    type: "checkbox",
    role: "switch",
    checked: value,
    on: { change: () => changed(input.checked) },
  });
  return el(
    "label.switch",
    {},
    el("span.switch-text", {}, text, hint && el("small", {}, hint)),
    input,
    el("span.track", { "aria-hidden": "true" }),
  );
}

/** A list to choose from. */
export function chooser(text, choices, value, changed) {
  const select = el(
    "select",
    { on: { change: () => changed(select.value) } },
    ...choices.map((one) => el("option", { value: one, selected: one === value }, one)),
  );
  return el("label.field", {}, el("span", {}, text), select);
}

/**
 * A text or number to type.
 * @param {function(string)} changed Called when typing pauses, or when the visitor leaves the field.
 * @param {function(string): boolean} ready Whether a pause is enough for this text.
 */
export function field(text, given, changed, ready = () => true) {
  let pause = 0;
  let told = given.value ?? "";
  const tell = () => {
    const value = input.value.trim();
    if (value !== told) changed((told = value));
  };
  const input = el("input", {
    autocomplete: "off",
    spellcheck: "false",
    ...given,
    on: {
      input: () => {
        clearTimeout(pause);
        if (ready(input.value.trim())) pause = setTimeout(tell, 250);
      },
      change: tell,
    },
  });
  return el("label.field", {}, el("span", {}, text), input);
}

/**
 * Model, expansion and verification, as far as the server has them.
 * @param {object} info What the server told of itself.
 * @param {object} params Those of the address: model, expand, verify.
 * @param {function(object)} changed Called with the parameters that changed.
 */
export function searchOptions(info, params, changed) {
  const models = info.models.map((model) => model.name);
  const { expand, verify } = info.features;
  return [
    models.length > 1 &&
      chooser("Model", models, params.model ?? models[0], (model) =>
        changed({ model: model === models[0] ? "" : model }),
      ),
    expand.length > 0 &&
      segmented(
        "Query expansion",
        [["", "Off"], ...expand.map((one) => [one, EXPANSIONS[one] ?? one])],
        params.expand ?? "",
        (value) => changed({ expand: value }),
      ),
    verify &&
      toggle(
        "Geometric verification",
        "Compares the best fifty point by point",
        params.verify === "1",
        (on) => changed({ verify: on ? "1" : "" }),
      ),
  ].filter(Boolean);
}

/** What of a request the parameters of an address stand for. */
export function searchRequest(params) {
  const filter = {
    name_contains: params.name || undefined,
    label: params.label || undefined,
    min_score: params.min ? Number(params.min) : undefined,
  };
  return {
    photo: params.q,
    model: params.model || undefined,
    expand: params.expand || undefined,
    verify: params.verify === "1" || undefined,
    filter: Object.values(filter).some((one) => one !== undefined) ? filter : undefined,
  };
}
