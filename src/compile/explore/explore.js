"use strict";
// An element belongs to an op of the final loop IR (data-op; a buffer in LX: data-first, its writer)
// or to graph values (data-node, blanks between). Elements of one op or value are partners. The
// fragment "#segment=0&op=3" or "#segment=0&node=h" selects.

const segments = [...document.querySelectorAll("article")];
const choice = document.getElementById("segment");

function names(element) {
  return (element.dataset.node || "").split(" ").filter(Boolean);
}

function whole(name) {
  return name.replace(/\.\d+$/, "");
}

function opOf(element) {
  return element.dataset.op ?? element.dataset.first;
}

function put(map, key, element) {
  if (!map.has(key)) map.set(key, []);
  map.get(key).push(element);
}

const index = new Map(
  segments.map((segment) => {
    const byOp = new Map(), byNode = new Map(), partsOf = new Map(), opsOfNode = new Map();
    for (const element of segment.querySelectorAll("[data-op],[data-first],[data-node]")) {
      const op = opOf(element);
      if (op !== undefined) put(byOp, op, element);
      for (const name of names(element)) {
        if (op === undefined) put(byNode, name, element);
        for (const of of new Set([name, whole(name)])) {
          put(op === undefined ? partsOf : opsOfNode, of, op === undefined ? element : op);
        }
      }
    }
    return [segment, { byOp, byNode, partsOf, opsOfNode, marked: [] }];
  }),
);

let pinned = null; // {segment, op} or {segment, node}

function clear(segment) {
  const own = index.get(segment);
  for (const element of own.marked) element.classList.remove("hit", "exact");
  own.marked = [];
}

function mark(target) {
  segments.forEach(clear);
  if (!target) return;
  const own = index.get(target.segment);
  const byOp = target.op !== undefined;
  const ops = byOp ? [target.op] : [...new Set(target.nodes.flatMap((n) => own.opsOfNode.get(n) || []))];
  const made = byOp ? (own.byOp.get(target.op) || []).flatMap(names) : target.nodes;
  const nodes = new Set(byOp ? made.flatMap((n) => [n, whole(n)]) : made);
  for (const op of ops) for (const element of own.byOp.get(op) || []) light(own, element, byOp);
  for (const node of nodes) for (const element of (byOp ? own.byNode : own.partsOf).get(node) || []) light(own, element, !byOp);
}

function light(own, element, exact) {
  element.classList.add("hit");
  if (exact) element.classList.add("exact");
  own.marked.push(element);
}

function targetOf(element) {
  const line = element.closest("[data-op],[data-first],[data-node]");
  if (!line) return null;
  const segment = line.closest("article");
  const op = opOf(line);
  return op !== undefined ? { segment, op } : { segment, nodes: names(line) };
}

function show(segment) {
  for (const other of segments) other.hidden = other !== segment;
  choice.value = segment.dataset.segment;
}

// Brings the first partner of every column into sight, of those that are the thing itself if any are.
function reveal(segment) {
  for (const column of segment.querySelectorAll(".scroll")) {
    const seen = [...column.querySelectorAll(".hit")].filter((e) => e.getClientRects().length);
    const first = seen.find((e) => e.classList.contains("exact")) || seen[0];
    if (first) column.scrollTop += first.getBoundingClientRect().top - column.getBoundingClientRect().top - 40;
  }
}

function follow() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const segment = segments.find((s) => s.dataset.segment === wanted.get("segment")) || segments[0];
  show(segment);
  pinned = wanted.has("op") ? { segment, op: wanted.get("op") }
    : wanted.has("node") ? { segment, nodes: wanted.getAll("node") } : null;
  mark(pinned);
  reveal(segment);
}

function pin(target) {
  const wanted = new URLSearchParams({ segment: target.segment.dataset.segment });
  if (target.op !== undefined) wanted.set("op", target.op);
  else for (const node of target.nodes) wanted.append("node", node);
  location.hash = wanted.toString();
}

// The next op with a line, upwards or downwards.
function step(by) {
  const segment = segments.find((s) => !s.hidden);
  const ops = [...index.get(segment).byOp.keys()].map(Number).sort((a, b) => a - b);
  const at = pinned && pinned.op !== undefined ? ops.indexOf(Number(pinned.op)) + by : by > 0 ? 0 : ops.length - 1;
  if (at >= 0 && at < ops.length) pin({ segment, op: String(ops[at]) });
}

document.addEventListener("mouseover", (event) => mark(targetOf(event.target) || pinned));
document.addEventListener("focusin", (event) => mark(targetOf(event.target) || pinned));
document.addEventListener("click", (event) => {
  const target = targetOf(event.target);
  if (target) pin(target);
});
document.addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLSelectElement) return;
  const target = event.key === "Enter" ? targetOf(event.target) : null;
  if (target) pin(target);
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "Escape") location.hash = "segment=" + choice.value;
});
choice.addEventListener("change", () => { location.hash = "segment=" + choice.value; });
for (const select of document.querySelectorAll("select.pass")) {
  select.addEventListener("change", () => {
    for (const pass of select.closest(".stage").querySelectorAll("[data-pass]")) {
      pass.hidden = pass.dataset.pass !== select.value;
    }
  });
}
window.addEventListener("hashchange", follow);
follow();
