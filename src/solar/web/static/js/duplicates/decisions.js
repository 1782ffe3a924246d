// What somebody decides about groups of duplicates. It stays in this browser; no photo is touched.
//
// A decision is `{ keep: [photo, …], apart: [pair, …], done }`, by number inside the group: the
// photos to keep, the pairs that are no duplicates of each other, and whether it was confirmed.

// How many steps can be taken back.
const STEPS = 200;

/** What the report suggests for a group; nothing goes where `keep` is null: it is open. */
export const suggestion = (group) => ({
  keep: group.photos.flatMap((photo, at) => (photo.keep === false ? [] : [at])),
  apart: [],
});

/**
 * What becomes of each photo of a group: "keep", "remove" or "apart".
 *
 * Pairs that are no duplicates are taken out first. A photo goes only where what is left of its
 * group still has one that is kept; otherwise it is apart, and stays.
 */
export function outcome(group, { keep, apart }) {
  const part = parts(group, apart);
  const kept = new Set(keep.map((at) => part[at]));
  return part.map((own, at) => {
    if (keep.includes(at)) return "keep";
    return kept.has(own) ? "remove" : "apart";
  });
}

/** For each photo, the first one that it still hangs together with. */
function parts(group, apart) {
  const part = group.photos.map((_, at) => at);
  const first = (at) => (part[at] === at ? at : (part[at] = first(part[at])));
  group.pairs.forEach(({ a, b }, number) => {
    if (apart.includes(number)) return;
    const [low, high] = [first(a), first(b)].sort((one, other) => one - other);
    part[high] = low;
  });
  return part.map((_, at) => first(at));
}

/** Whether nothing of a group is left: all its pairs are no duplicates. */
export const dissolved = (group, { apart }) => apart.length === group.pairs.length;

/**
 * The decisions on a report, kept under its name.
 * @param {function(string)} failed Told, once, where the browser keeps nothing.
 */
export function decisionStore(name, failed) {
  const key = `solar-duplicates:${name}`;
  let steps = [];
  let all = {};
  let broken = false;

  function read() {
    try {
      all = JSON.parse(localStorage.getItem(key)) ?? all;
      steps = JSON.parse(sessionStorage.getItem(key)) ?? steps;
    } catch {
      // What another page left there, or a browser that keeps nothing: begin with what we have.
    }
  }

  function write() {
    try {
      localStorage.setItem(key, JSON.stringify(all));
      sessionStorage.setItem(key, JSON.stringify(steps));
    } catch {
      if (!broken) failed("This browser does not save decisions: export them before you leave.");
      broken = true;
    }
  }

  function put(id, decision) {
    if (decision) all[id] = decision;
    else delete all[id];
    write();
  }

  const get = (id) => (Object.hasOwn(all, id) ? all[id] : null);

  read();
  return {
    /** The decision on a group, or null. */
    get,
    /** Whether the decision on a group was confirmed. */
    decided: (id) => Boolean(get(id)?.done),
    decide(id, decision) {
      read();
      steps = [...steps, [id, get(id)]].slice(-STEPS);
      put(id, decision);
    },
    /** Takes the last decision back, and gives the group that it was about, or null. */
    undo() {
      read(); // another tab may have decided something meanwhile
      const step = steps.pop();
      if (!step) return null;
      put(...step);
      return step[0];
    },
  };
}
