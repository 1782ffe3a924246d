// The controls of a search: model, ways to re-rank, filters.

import { el } from "./dom.js";
import { filterOf } from "./filters/address.js";

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

/** A list to choose from, of pairs: a value and what people call it. */
export function chooser(text, choices, value, changed, hint) {
  const select = el(
    "select",
    { on: { change: () => changed(select.value) } },
    ...choices.map(([key, name]) => el("option", { value: key, selected: key === value }, name)),
  );
  return el("label.field", {}, el("span", {}, text), select, hint && el("small", {}, hint));
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
    const { value: typed, min, max } = input;
    // A number beyond the limits becomes the nearest one inside: 150 percent is 100.
    const inside = () => String(Math.min(Math.max(Number(typed), Number(min)), Number(max)));
    const value = input.type === "number" && typed && min && max ? inside() : typed.trim();
    if (value !== typed) input.value = value;
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

/** A slider for the opacity of a map on a photo, which the browser remembers. */
export function opacitySlider(changed) {
  const key = "solar-opacity";
  const tell = () => {
    changed(String(input.value / 100));
    localStorage.setItem(key, input.value);
  };
  const value = localStorage.getItem(key) ?? "70";
  const input = el("input", { type: "range", min: "0", max: "100", value, on: { input: tell } });
  tell();
  return el("label.field", {}, el("span", {}, "Opacity"), input);
}

const OFF = "none";

/**
 * Names of the ways to re-rank that an address asks for, in order.
 * @param {string[]} usual Those where it says nothing.
 */
export function methodsOf({ rerank }, usual = []) {
  if (!rerank) return usual;
  return rerank === OFF ? [] : rerank.split(",");
}

/**
 * Model and ways to re-rank, as far as the server has them.
 * @param {object} info What the server told of itself.
 * @param {object} params Those of the address: model, rerank.
 * @param {function(object)} changed Called with the parameters that changed.
 * @param {string[]} usual How to re-rank where the address does not say.
 */
export function searchOptions(info, params, changed, usual = []) {
  const models = info.models.map((model) => model.name);
  const wanted = methodsOf(params, usual);
  const choose = (names) => {
    const asked = names.join(",");
    const rerank = asked === usual.join(",") ? "" : asked || OFF;
    changed({ rerank });
  };
  const [quick, looking] = ["vectors", "photos"].map((needs) =>
    info.features.rerank.filter((method) => method.needs === needs),
  );
  const chosen = quick.find((method) => wanted.includes(method.name));
  const others = wanted.filter((name) => !quick.some((method) => method.name === name));
  return [
    models.length > 1 &&
      chooser(
        "Model",
        models.map((model) => [model, model]),
        params.model ?? models[0],
        (model) => changed({ model: model === models[0] ? "" : model }),
      ),
    quick.length > 0 &&
      chooser(
        "Re-ranking",
        [["", "Off"], ...quick.map((method) => [method.name, method.label])],
        chosen?.name ?? "",
        (name) => choose([...(name ? [name] : []), ...others]),
        chosen?.summary,
      ),
    ...looking.map(({ name, label, summary }) =>
      toggle(label, summary, wanted.includes(name), (on) =>
        choose(on ? [...wanted, name] : wanted.filter((one) => one !== name)),
      ),
    ),
  ];
}

const clamped = (share) => Math.min(1, Math.max(0, share));

/** What of a request the parameters of an address stand for; `usual` as above. */
export function searchRequest(params, usual = []) {
  const filter = {
    search: params.name || undefined,
    label: params.label || undefined,
    min_score: params.min ? Number(params.min) : undefined,
    // What is shown is rounded: a photo with "97 %" is one of at least 97 %.
    min_probability: params.probable ? clamped((Number(params.probable) - 0.5) / 100) : undefined,
    ...filterOf(params),
  };
  return {
    photo: params.q || undefined,
    text: params.text || undefined,
    model: params.model || undefined,
    rerank: methodsOf(params, usual),
    filter: Object.values(filter).some((one) => one !== undefined) ? filter : undefined,
    sort: params.sort || undefined,
  };
}
