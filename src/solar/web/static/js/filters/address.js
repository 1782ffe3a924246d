// Filters and order in the address of the page: "#/?q=17&folder=rome/&from=2019-07-14&sort=newest".

/** The parameters that filter; `name` and `label` are those of before. */
export const FILTERS = [
  "name",
  "label",
  "folder",
  "tag",
  "root",
  "from",
  "to",
  "where",
  "min",
  "probable",
];

/** Between the name of a root and a path below it; after a root's name, which may be empty. */
export const MARK = "//";

/** What of a request's filter the parameters of an address stand for. */
export function filterOf({ folder, tag, from, to, where, root }) {
  const conditions = [
    folder && `path=${folder}`,
    tag && `tag=${tag}`,
    from && `taken>=${from}`,
    to && `taken<${dayAfter(to)}`,
    where,
  ].filter(Boolean);
  return {
    where: conditions.length ? conditions : undefined,
    root: root ? root.slice(0, -MARK.length) : undefined,
  };
}

/** The query of a request for a piece of the collection. */
export function browseQuery(params, piece) {
  const { where = [], root } = filterOf(params);
  const query = new URLSearchParams(piece);
  if (params.name) query.set("search", params.name);
  if (params.label) query.set("label", params.label);
  if (root !== undefined) query.set("root", root);
  if (params.sort) query.set("sort", params.sort);
  for (const condition of where) query.append("where", condition);
  return query;
}

/** A day that is filtered by counts whole: photos are taken before the next one. */
function dayAfter(day) {
  const next = new Date(`${day}T00:00:00Z`);
  if (Number.isNaN(next.valueOf())) return day; // the server says what is wrong with it
  next.setUTCDate(next.getUTCDate() + 1);
  return next.toISOString().slice(0, 10);
}
