"use strict";
// The report's page. DATA is what collect.py gathered. Parts: small tools; views; the graph: items, layout, drawing.

const DATA = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const SVG = "http://www.w3.org/2000/svg";

// ---- small tools

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const base = (path) => path.split(/[\\/]/).pop();
const place = (node) => (node.line ? `${base(node.file)}:${node.line}` : "");
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

function seconds(t) {
  if (t >= 1) return `${t.toFixed(2)} s`;
  return t >= 1e-3 ? `${(t * 1e3).toFixed(2)} ms` : `${(t * 1e6).toFixed(1)} µs`;
}

const WORD = /("""[\s\S]*?"""|'[^'\n]*'|"[^"\n]*")|(COMMENT)|\b(def|return|while|for|if|elif|else|in|not|and|or|is|None|True|False|break|continue|nonlocal|global|class|with|as|try|except|raise|assert|lambda|import|from|del|pass|yield|define|store|load|call|br|phi|ret)\b|(?<![\w%.])(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\b/gm;

const PYTHON = new RegExp(WORD.source.replace("COMMENT", "#.*"), "gm");
const LLVM = new RegExp(WORD.source.replace("COMMENT", ";.*"), "gm");

function coloured(text) {
  const made = document.createDocumentFragment();
  let at = 0;
  for (const found of text.matchAll(/^define /m.test(text) ? LLVM : PYTHON)) {
    made.append(text.slice(at, found.index));
    const kind = found[1] ? "s" : found[2] ? "k" : found[3] ? "w" : "d";
    made.append(el("span", { class: kind }, found[0]));
    at = found.index + found[0].length;
  }
  made.append(text.slice(at));
  return made;
}

// Colours the lines of a source one by one; a text in triple quotes goes on over lines.
function lineByLine() {
  let open = false;
  return (text) => {
    const parts = text.split(/("""|''')/);
    if (!open && parts.length !== 3) return coloured(text);
    const made = document.createDocumentFragment();
    const add = (part, inside) => part && made.append(inside ? el("span", { class: "s" }, part) : coloured(part));
    for (const part of parts) {
      const quotes = part === '"""' || part === "'''";
      add(part, open || quotes);
      if (quotes) open = !open;
    }
    return made;
  };
}

function* nodesOf(graph) {
  for (const node of graph.nodes) {
    yield node;
    for (const region of node.regions) yield* nodesOf(region);
  }
}

const sourceLines = new Map();
for (const f of DATA.functions) for (const line of f.source) sourceLines.set(`${f.file}:${line.n}`, line.text.trim());
const sourceOf = (node) => sourceLines.get(`${node.file}:${node.line}`) || "";

// ---- views

const VIEWS = [
  ["source", "Source", sourceView],
  ["graph", "Graph", graphView],
  ["program", "Program", programView],
  ["kernels", "Kernels", kernelsView],
  ["times", "Times", timesView],
  ["retraces", "Retraces", retracesView],
];
let current = "";

function showView(name) {
  const view = VIEWS.find((v) => v[0] === name) || VIEWS[0];
  current = view[0];
  for (const tab of document.querySelectorAll("#tabs button")) {
    const selected = tab.dataset.view === current;
    tab.setAttribute("aria-selected", selected);
    tab.tabIndex = selected ? 0 : -1;
  }
  main.replaceChildren();
  view[2]();
  if (location.hash.slice(1) !== current) history.replaceState(null, "", `#${current}`);
}

function sourceView() {
  const pane = el("div", { class: "pane sources", tabindex: 0 });
  const kinds = DATA.functions.some((f) => f.source.some((l) => l.kind));
  if (kinds) {
    const entry = (colour, text) => el("span", {}, el("i", { style: `background: var(--${colour})` }), text);
    pane.append(el("p", { class: "legend" }, entry("graph", "part of the graph"), entry("python", "stayed Python, ran while tracing"), entry("missed", "not reached while tracing"), "Point at a line to see its counterpart; click it for its nodes."));
  }
  for (const f of DATA.functions) pane.append(functionPair(f));
  if (!DATA.functions.length) pane.append(el("p", { class: "empty" }, "The nodes of this graph do not know their source: the graph was loaded, or made by hand."));
  main.append(pane);
}

function functionPair(f) {
  const left = el("div", { class: "code" }, el("div", { class: "head" }, "Your code"));
  const right = el("div", { class: "code" }, el("div", { class: "head" }, "Rewritten by tograph"));
  const link = (n, on) => {
    for (const side of [left, right]) for (const row of side.querySelectorAll(`[data-n="${n}"]`)) row.classList.toggle("linked", on);
  };
  const row = (line, kind, why, colour) => {
    const made = el("div", { class: `line ${kind}`, "data-n": line.n, title: why || false }, el("span", { class: "n" }, line.n ? String(line.n) : ""), el("span", {}, colour(line.text)));
    if (why) made.append(el("span", { class: "why" }, why));
    made.addEventListener("mouseenter", () => link(line.n, true));
    made.addEventListener("mouseleave", () => link(line.n, false));
    made.addEventListener("click", () => openLine(f.file, line.n));
    return made;
  };
  const classes = { graph: "graph", python: "python", "not reached": "missed" };
  const [mine, rewritten] = [lineByLine(), lineByLine()];
  for (const line of f.source) left.append(row(line, classes[line.kind] || "", line.why, mine));
  for (const line of f.made) right.append(row(line, "", "", rewritten));
  return el("section", { class: "function" }, el("h2", {}, f.name, " ", el("small", {}, `${f.file}:${f.source.length ? f.source[0].n : ""}`)), el("div", { class: "pair" }, left, right));
}

function openLine(file, n) {
  const found = [...nodesOf(DATA.stages[0].graph)].find((node) => node.file === file && node.line === n);
  if (!found) return;
  picture = null;
  stage = 0;
  showView("graph");
  picture.reveal(found.id);
}

function programView() {
  main.append(el("div", { class: "pane list", tabindex: 0 }, el("p", { class: "legend" }, "The Python program that runs the graph on the host."), el("pre", {}, coloured(DATA.host))));
}

function kernelsView() {
  const pane = el("div", { class: "pane list", tabindex: 0 });
  if (!DATA.kernels.length) pane.append(el("p", { class: "empty" }, "No kernels: every operation of this trace runs as one of PyTorch's own, or no call has compiled one yet."));
  if (DATA.level) pane.prepend(el("p", { class: "legend" }, `A call without gradients runs as: ${DATA.level}`));
  for (const kernel of DATA.kernels) {
    const box = el("details", { open: DATA.kernels.length < 4 }, el("summary", {}, kernel.name, "  ", el("small", { class: "does" }, clip((kernel.sources.computes || "").split("\n").map((l) => l.split(" ").pop()).join(", "), 120))));
    for (const [label, text] of Object.entries(kernel.sources)) box.append(el("p", { class: "legend", style: "padding: 0 18px; margin: 8px 0 0" }, label), el("pre", {}, coloured(text)));
    pane.append(box);
  }
  main.append(pane);
}

function timesView() {
  const pane = el("div", { class: "pane list", tabindex: 0 });
  main.append(pane);
  if (!DATA.timed) {
    pane.append(el("p", { class: "empty" }, "No times: this function has not run for this report. `tograph report FILE.py:fn` runs it once; cf.report(path, *args) does so with the arguments that it is given."));
    return;
  }
  const rows = [...nodesOf(DATA.stages.at(-1).graph)].filter((n) => n.runs);
  rows.sort((a, b) => b.seconds - a.seconds);
  const total = DATA.total || 1;
  pane.append(el("p", { class: "legend" }, `One run, ${seconds(DATA.total)}, with a clock around every node (which itself costs time). A node with regions holds the time of its nodes.`));
  const table = el("table", {}, el("tr", {}, ...["time", "share", "runs", "each", "node", "where"].map((t, i) => el("th", { class: i < 4 ? "r" : false }, t))));
  for (const n of rows.slice(0, 400)) {
    const share = Math.min(1, n.seconds / total);
    const go = () => { stage = DATA.stages.length - 1; picture = null; showView("graph"); picture.reveal(n.id); };
    table.append(el("tr", { class: "row", tabindex: 0, onclick: go, onkeydown: (e) => { if (e.key === "Enter") go(); } },
      el("td", { class: "r" }, seconds(n.seconds)),
      el("td", { class: "r" }, el("span", { class: "meter", style: `width: ${Math.round(share * 80)}px` }), ` ${(share * 100).toFixed(1)}%`),
      el("td", { class: "r" }, String(n.runs)), el("td", { class: "r" }, seconds(n.seconds / n.runs)),
      el("td", { class: "mono" }, n.op), el("td", { class: "mono" }, `${place(n)}  ${sourceOf(n)}`)));
  }
  pane.append(table);
}

function retracesView() {
  const pane = el("div", { class: "pane list", tabindex: 0 });
  main.append(pane);
  if (!DATA.retraces.length) {
    pane.append(el("p", { class: "empty" }, "Nothing is known of other traces."));
    return;
  }
  pane.append(el("p", { class: "legend" }, "Each trace of the function, and why those before it did not fit."));
  const table = el("table", {}, el("tr", {}, el("th", {}, "trace"), el("th", {}, "because")));
  for (const line of DATA.retraces) {
    const at = line.indexOf(": ");
    table.append(el("tr", {}, el("td", { class: "mono" }, at < 0 ? "" : line.slice(0, at)), el("td", {}, at < 0 ? line : line.slice(at + 2))));
  }
  pane.append(table);
}

// ---- the graph: items. A container holds items; an item is a node (with a container for each region), or a group of
// consecutive items that is folded at first: those of one source line, or a stretch of a long container.

const MANY = 40;

function containerOf(graph, depth) {
  const items = graph.nodes.map((node) => ({ kind: node.regions.length ? "region" : "node", node, open: false, inner: node.regions.map((r) => containerOf(r, depth + 1)) }));
  return { title: graph.title, ins: graph.ins, outs: graph.outs, items: stretches(sameLine(items)) };
}

function sameLine(items) {
  if (items.length <= MANY) return items;
  const made = [];
  let run = [];
  const close = () => { if (run.length > 1) made.push(groupOf(run, place(run[0].node), sourceOf(run[0].node))); else made.push(...run); run = []; };
  for (const item of items) {
    const joins = run.length && item.kind === "node" && place(item.node) === place(run[0].node) && item.node.line;
    if (!joins) close();
    if (item.kind === "node") run.push(item); else made.push(item);
  }
  close();
  return made;
}

function stretches(items) {
  if (items.length <= MANY * 1.5) return items;
  const size = Math.max(MANY / 2, Math.ceil(items.length / MANY));
  const made = [];
  for (let i = 0; i < items.length; i += size) {
    const part = items.slice(i, i + size);
    made.push(part.length > 1 ? groupOf(part, `${plural(countNodes(part), "node")}`, `from ${titleOf(part[0])} to ${titleOf(part[part.length - 1])}`) : part[0]);
  }
  return made;
}

function groupOf(items, title, detail) {
  return { kind: "group", title, detail, open: false, inner: [{ title: "", ins: [], outs: [], items }] };
}

function titleOf(item) {
  return item.kind === "group" ? item.title : place(item.node) || item.node.op;
}

function countNodes(items) {
  let n = 0;
  for (const item of items) n += (item.kind === "group" ? 0 : 1) + item.inner.reduce((sum, c) => sum + countNodes(c.items), 0);
  return n;
}

function prepare(container, parent) {
  for (const item of container.items) {
    item.parent = parent;
    for (const inner of item.inner) prepare(inner, item);
    if (item.kind === "group") {
      item.makes = new Set(); item.needs = new Set(); item.afters = new Set(); item.ids = new Set(); item.uses = new Set(); item.effect = false; item.seconds = 0;
      for (const part of item.inner[0].items) {
        for (const key of ["makes", "needs", "afters", "ids", "uses"]) for (const v of part[key]) item[key].add(v);
        item.effect = item.effect || part.effect; item.seconds += part.seconds;
      }
    } else {
      const n = item.node;
      item.makes = new Set(n.outs); item.needs = new Set(n.ins); item.afters = new Set(n.after); item.ids = new Set([n.id]); item.uses = new Set(n.uses);
      item.effect = n.effects.length > 0; item.seconds = n.seconds;
    }
  }
}

// ---- the graph: layout. Layers by the longest path; order in a layer by the mean of the neighbours; one row per layer.

const GAP = 22, RISE = 44, PAD = 14, HEAD = 40, CHAR = 7.3;
const pinText = (p) => clip(`${/^\d/.test(p.name) ? "%" : ""}${p.name}: ${p.type}`, 34);
const clip = (text, n) => (text.length > n ? `${text.slice(0, n - 1)}…` : text);

function labels(item) {
  if (item.kind === "group") return [clip(item.title, 34), clip(item.detail || "", 44)];
  const n = item.node;
  const name = n.op.replace(/^aten\./, "").replace(/\.(default|Tensor|Scalar|self)$/, "");
  const types = n.types.length ? n.types.join(", ") : "no output";
  return [clip(item.kind === "region" ? `${n.op}  ${place(n)}` : name, 40), clip(item.kind === "region" ? sourceOf(n) : types, 44)];
}

function measure(item) {
  const [title, detail] = (item.labels = labels(item));
  const width = Math.max(64, title.length * CHAR + 26, detail.length * 6.5 + 20);
  if (!item.open || !item.inner.length) {
    item.w = width; item.h = 40;
    return;
  }
  let x = PAD, tall = 0;
  for (const inner of item.inner) {
    arrange(inner, item.kind === "region");
    inner.x = x; inner.y = HEAD + (item.kind === "region" ? 18 : 4);
    x += inner.w + PAD; tall = Math.max(tall, inner.h + (item.kind === "region" ? 18 : 4));
  }
  item.w = Math.max(width, x); item.h = HEAD + tall + PAD;
}

function arrange(container, pins) {
  const items = container.items;
  items.forEach(measure);
  const makers = new Map(), byId = new Map();
  const boxes = [];
  if (pins) {
    const needed = new Set();
    for (const item of items) for (const v of item.needs) needed.add(v);
    container.outs.forEach((v) => needed.add(v));
    container.pins = container.ins.filter((p) => needed.has(p.v)).map((p) => ({ kind: "pin", pin: p, w: pinText(p).length * CHAR + 20, h: 24, layer: 0 }));
    for (const pin of container.pins) { makers.set(pin.pin.v, pin); boxes.push(pin); }
  } else container.pins = [];
  for (const item of items) { for (const v of item.makes) makers.set(v, item); for (const id of item.ids) byId.set(id, item); boxes.push(item); }
  const edges = new Map();
  const join = (from, to, kind) => {
    if (!from || from === to) return;
    const before = edges.get(from) || edges.set(from, new Map()).get(from);
    const old = before.get(to);
    if (!old || kind === "resource" || (old === "control" && kind === "data")) before.set(to, kind);
  };
  for (const item of items) {
    for (const v of item.needs) join(makers.get(v), item, item.uses.has(v) ? "resource" : "data");
    for (const id of item.afters) join(byId.get(id), item, "control");
  }
  container.out = pins && container.outs.length ? { kind: "pin", result: true, w: 70, h: 24 } : null;
  if (container.out) { for (const v of container.outs) join(makers.get(v), container.out, "data"); boxes.push(container.out); }
  const above = new Map(), below = new Map();
  for (const [from, targets] of edges) for (const to of targets.keys()) {
    (above.get(to) || above.set(to, []).get(to)).push(from);
    (below.get(from) || below.set(from, []).get(from)).push(to);
  }
  const layers = [];
  for (const box of boxes) {
    box.layer = box.kind === "pin" && !box.result ? 0 : Math.max(0, ...(above.get(box) || []).map((b) => b.layer + 1));
  }
  if (container.out) container.out.layer = Math.max(...boxes.map((b) => b.layer));
  for (const box of boxes) (layers[box.layer] = layers[box.layer] || []).push(box);
  order(layers, above, below);
  position(container, layers, above, below);
  container.edges = edges;
}

function order(layers, above, below) {
  const set = () => layers.forEach((row) => row.forEach((box, i) => { box.rank = (i + 0.5) / row.length; }));
  set();
  for (let sweep = 0; sweep < 6; sweep++) {
    const near = sweep % 2 ? below : above;
    const rows = sweep % 2 ? [...layers].reverse() : layers;
    for (const row of rows) {
      for (const box of row) {
        const others = near.get(box) || [];
        box.want = others.length ? others.reduce((sum, o) => sum + o.rank, 0) / others.length : box.rank;
      }
      row.sort((a, b) => a.want - b.want);
      row.forEach((box, i) => { box.rank = (i + 0.5) / row.length; });
    }
  }
}

function position(container, layers, above, below) {
  const rows = layers.flatMap(wrapped);
  const widths = rows.map((row) => row.reduce((sum, b) => sum + b.w + GAP, -GAP));
  const wide = Math.max(40, ...widths);
  let y = 0;
  rows.forEach((row, i) => {
    let x = (wide - widths[i]) / 2;
    const tall = Math.max(...row.map((b) => b.h));
    const joined = i + 1 < rows.length && rows[i + 1][0].layer === row[0].layer;
    for (const box of row) { box.x = x; box.y = y; x += box.w + GAP; }
    y += tall + (joined ? 12 : RISE);
  });
  for (const pass of [above, below, above]) for (const row of pass === below ? [...rows].reverse() : rows) straighten(row, pass);
  const least = Math.min(...layers.flat().map((b) => b.x), 0);
  for (const box of layers.flat()) box.x -= least;
  container.w = Math.max(60, ...layers.flat().map((b) => b.x + b.w));
  container.h = Math.max(24, y - RISE);
}

// A layer as rows: one that is too wide to look at goes on below.
function wrapped(layer) {
  const rows = [[]];
  let width = 0;
  for (const box of layer) {
    if (rows[rows.length - 1].length && width + box.w > 1100) { rows.push([]); width = 0; }
    rows[rows.length - 1].push(box);
    width += box.w + GAP;
  }
  return rows;
}

// Each box moves towards the mean of its neighbours as far as its row leaves room.
function straighten(row, near) {
  const wanted = row.map((box) => {
    const others = near.get(box) || [];
    return others.length ? others.reduce((sum, o) => sum + o.x + o.w / 2, 0) / others.length - box.w / 2 : box.x;
  });
  let from = -Infinity;
  const right = row.map((box, i) => { const x = Math.max(from, wanted[i]); from = x + box.w + GAP; return x; });
  let until = Infinity;
  for (let i = row.length - 1; i >= 0; i--) {
    const left = Math.min(until - row[i].w, wanted[i]);
    until = left - GAP;
    row[i].x = (right[i] + left) / 2;
  }
  from = -Infinity;
  for (const box of row) { box.x = Math.max(from, box.x); from = box.x + box.w + GAP; }
}

// ---- the graph: drawing and moving about

let stage = 0, picture = null;

function graphView() {
  const passes = el("span", { role: "group", "aria-label": "Passes" }, ...DATA.stages.map((s, i) => el("button", { class: "pass", "aria-pressed": String(i === stage), onclick: () => { stage = i; picture = null; showView("graph"); } }, s.name)));
  const button = (text, title, act) => el("button", { title, onclick: act }, text);
  const bar = el("div", { class: "bar" }, passes, el("span", { class: "does" }, DATA.stages[stage].does),
    el("span", { class: "push" }, button("Open all", "o", () => picture.foldAll(true)), button("Fold all", "c", () => picture.foldAll(false)), button("−", "smaller ( - )", () => picture.zoom(0.8)), button("+", "larger ( + )", () => picture.zoom(1.25)), button("Fit", "0", () => picture.fit())));
  const canvas = el("div", { class: "canvas" });
  const side = el("aside", { class: "pane side", "aria-live": "polite" });
  main.append(el("div", { class: "graphview" }, bar, canvas), side);
  if (!picture) picture = new Picture(DATA.stages[stage].graph);
  picture.show(canvas, side);
}

class Picture {
  constructor(graph) {
    this.root = containerOf(graph, 0);
    prepare(this.root, null);
    this.total = [...nodesOf(graph)].length;
    this.hottest = Math.max(1e-12, ...[...nodesOf(graph)].map((n) => n.seconds));
    this.chosen = null;
    this.found = new Set();
    this.view = null;
    if (this.total <= 120) this.each((item) => { item.open = true; });
  }

  each(act, container = this.root) {
    for (const item of container.items) { act(item); for (const inner of item.inner) this.each(act, inner); }
  }

  show(canvas, side) {
    this.canvas = canvas;
    this.side = side;
    this.svg = svg("svg", { tabindex: 0, role: "application", "aria-label": "The graph. Arrows move, Enter opens and folds." });
    canvas.append(this.svg);
    this.svg.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.svg.addEventListener("pointerdown", (e) => this.grab(e));
    this.draw();
    this.describe();
  }

  draw() {
    arrange(this.root, true);
    this.boxes = [];
    this.lines = [];
    const defs = svg("defs");
    for (const kind of ["data", "control", "resource"]) defs.append(svg("marker", { id: `tip-${kind}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, svg("path", { d: "M0 0 L8 4 L0 8 z", style: `fill: var(--${kind})` })));
    const scene = svg("g");
    this.paint(this.root, scene, 0, 0);
    this.svg.replaceChildren(defs, scene);
    if (!this.view) this.fit(true); else this.apply();
    this.mark();
  }

  paint(container, into, x, y) {
    const edges = svg("g"), boxes = svg("g");
    into.append(edges, boxes);
    for (const [from, targets] of container.edges) for (const [to, kind] of targets) {
      const x1 = from.x + from.w / 2, y1 = from.y + from.h, x2 = to.x + to.w / 2, y2 = to.y, bend = Math.max(16, (y2 - y1) / 2);
      const path = svg("path", { class: `edge ${kind}`, d: `M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2 - 1}`, "marker-end": `url(#tip-${kind})` });
      edges.append(path);
      this.lines.push({ from, to, path });
    }
    for (const pin of [...container.pins, ...(container.out ? [container.out] : [])]) boxes.append(this.pin(pin));
    for (const item of container.items) boxes.append(this.box(item, x, y));
  }

  pin(pin) {
    const text = pin.result ? "result" : pinText(pin.pin);
    const written = !pin.result && pin.pin.written;
    return svg("g", { class: `item pin${written ? " written" : ""}`, transform: `translate(${pin.x} ${pin.y})` }, svg("title", {}, written ? `${text}, a resource that the graph writes` : text),
      svg("rect", { class: "box", width: pin.w, height: pin.h, rx: 12 }), svg("text", { x: pin.w / 2, y: 16, "text-anchor": "middle" }, text));
  }

  box(item, x, y) {
    const foldable = item.inner.length > 0;
    const g = svg("g", { class: `item ${item.kind}${item.effect ? " effect" : ""}${foldable && !item.open ? " folded" : ""}`, transform: `translate(${item.x} ${item.y})` });
    item.at = { x: x + item.x, y: y + item.y };
    item.g = g;
    g.append(svg("rect", { class: "box", width: item.w, height: item.h, rx: 6 }));
    if (item.seconds > 0) g.append(svg("rect", { class: "heat", x: 0, y: 0, width: 5, height: item.open ? HEAD : item.h, rx: 2, opacity: Math.max(0.08, Math.min(1, item.seconds / this.hottest)) }));
    const sign = foldable ? (item.open ? "▾ " : "▸ ") : "";
    g.append(svg("text", { class: "title", x: 12, y: 17 }, sign + item.labels[0]), svg("text", { class: "small", x: 12, y: 32 }, item.labels[1]));
    if (item.kind !== "group") g.append(svg("title", {}, `${item.node.text}\n${place(item.node)}  ${sourceOf(item.node)}`));
    if (item.open && foldable) for (const inner of item.inner) {
      const frame = svg("g", { transform: `translate(${inner.x} ${inner.y})` });
      if (inner.title) frame.append(svg("text", { class: "small", x: 2, y: -6 }, inner.title));
      this.paint(inner, frame, item.at.x + inner.x, item.at.y + inner.y);
      g.append(frame);
    }
    g.addEventListener("click", (e) => { e.stopPropagation(); this.choose(item); });
    g.addEventListener("dblclick", (e) => { e.stopPropagation(); this.toggle(item); });
    this.boxes.push(item);
    return g;
  }

  choose(item, focus) {
    this.chosen = item;
    this.mark();
    this.describe();
    if (focus) this.center(item);
  }

  mark() {
    for (const item of this.boxes) {
      item.g.classList.toggle("chosen", item === this.chosen);
      item.g.classList.toggle("found", this.found.size > 0 && [...item.ids].some((id) => this.found.has(id)));
    }
    for (const line of this.lines) line.path.classList.toggle("near", this.chosen !== null && (line.from === this.chosen || line.to === this.chosen));
  }

  toggle(item) {
    if (!item || !item.inner.length) return;
    item.open = !item.open;
    this.draw();
    this.choose(item, true);
  }

  foldAll(open) {
    if (open && this.total > 600) this.each((item) => { item.open = item.kind === "region" || countNodes([item]) > MANY; });
    else this.each((item) => { item.open = open; });
    this.view = null;
    if (this.chosen && !open) { while (this.chosen.parent) this.chosen = this.chosen.parent; }
    this.draw();
    this.describe();
  }

  itemOf(id) {
    let found = null;
    this.each((item) => { if (item.kind !== "group" && item.node.id === id) found = item; });
    return found;
  }

  reveal(id) {
    const item = this.itemOf(id);
    if (!item) return;
    for (let up = item.parent; up; up = up.parent) up.open = true;
    this.draw();
    this.choose(item, true);
    this.svg.focus();
  }

  // The whole picture; or, `readable`, its top at a size at which its texts can be read.
  fit(readable) {
    const pad = 24, box = this.canvas.getBoundingClientRect();
    const whole = Math.min(1.15, box.width / (this.root.w + 2 * pad), box.height / (this.root.h + 2 * pad));
    const scale = readable ? Math.max(whole, 0.8) : whole;
    const width = box.width / scale, height = box.height / scale;
    this.view = { x: this.root.w / 2 - width / 2, y: this.root.h + 2 * pad < height ? (this.root.h - height) / 2 : -pad, w: width, h: height };
    this.apply();
  }

  apply() {
    const v = this.view;
    this.svg.setAttribute("viewBox", `${v.x} ${v.y} ${v.w} ${v.h}`);
  }

  zoom(factor, px, py) {
    const v = this.view, cx = px === undefined ? v.x + v.w / 2 : px, cy = py === undefined ? v.y + v.h / 2 : py;
    v.x = cx - (cx - v.x) / factor; v.y = cy - (cy - v.y) / factor; v.w /= factor; v.h /= factor;
    this.apply();
  }

  center(item) {
    const v = this.view, x = item.at.x + Math.min(item.w, v.w) / 2, y = item.at.y + Math.min(item.h, v.h) / 2;
    const inside = item.at.x >= v.x && item.at.y >= v.y && item.at.x + Math.min(item.w, v.w) <= v.x + v.w && item.at.y + Math.min(item.h, v.h) <= v.y + v.h;
    if (!inside) { v.x = x - v.w / 2; v.y = y - v.h / 2; }
    if (v.w > 2600) { const f = v.w / 1800; v.w /= f; v.h /= f; v.x = x - v.w / 2; v.y = y - v.h / 2; }
    this.apply();
  }

  wheel(e) {
    e.preventDefault();
    const box = this.svg.getBoundingClientRect(), v = this.view;
    if (e.ctrlKey || !e.shiftKey) {
      this.zoom(Math.exp(-e.deltaY * 0.0016), v.x + ((e.clientX - box.left) / box.width) * v.w, v.y + ((e.clientY - box.top) / box.height) * v.h);
    } else { v.x += (e.deltaY * v.w) / box.width; this.apply(); }
  }

  grab(e) {
    if (e.button !== 0) return;
    const box = this.svg.getBoundingClientRect(), start = { ...this.view }, x = e.clientX, y = e.clientY;
    const move = (m) => {
      if (Math.abs(m.clientX - x) + Math.abs(m.clientY - y) < 4) return;
      this.svg.classList.add("held");
      this.view.x = start.x - ((m.clientX - x) * start.w) / box.width; this.view.y = start.y - ((m.clientY - y) * start.h) / box.height;
      this.apply();
    };
    const drop = () => { window.removeEventListener("pointermove", move); window.removeEventListener("pointerup", drop); this.svg.classList.remove("held"); };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", drop);
  }

  step(key) {
    if (!this.boxes.length) return;
    if (!this.chosen || !this.boxes.includes(this.chosen)) { this.choose(this.boxes.reduce((a, b) => (b.at.y < a.at.y ? b : a)), true); return; }
    const dir = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[key];
    const middle = (i) => [i.at.x + i.w / 2, i.at.y + Math.min(i.h, 40) / 2];
    const [cx, cy] = middle(this.chosen);
    let best = null, least = Infinity;
    for (const item of this.boxes) {
      if (item === this.chosen) continue;
      const [x, y] = middle(item), along = (x - cx) * dir[0] + (y - cy) * dir[1], across = Math.abs((x - cx) * dir[1]) + Math.abs((y - cy) * dir[0]);
      const cost = along + 2.5 * across;
      if (along > 3 && cost < least) { best = item; least = cost; }
    }
    if (best) this.choose(best, true);
  }

  search(text) {
    const words = text.trim().toLowerCase();
    this.found = new Set();
    if (words) this.each((item) => { if (item.kind !== "group" && `${item.node.text} ${place(item.node)} ${sourceOf(item.node)}`.toLowerCase().includes(words)) this.found.add(item.node.id); });
    this.mark();
    return this.found.size;
  }

  next() {
    const all = [...this.found].sort((a, b) => a - b);
    if (!all.length) return;
    const now = this.chosen && this.chosen.node ? this.chosen.node.id : -1;
    this.reveal(all.find((id) => id > now) ?? all[0]);
  }

  describe() {
    const side = this.side, item = this.chosen;
    side.replaceChildren();
    if (!item) {
      side.append(el("h2", {}, plural(this.total, "node")), el("p", {}, "Click a node for what it does; double-click one with ▸ to open it. Long stretches of nodes are folded by source line."), legend());
      return;
    }
    if (item.kind === "group") {
      side.append(el("h2", {}, item.title), el("p", {}, item.detail || ""), el("p", {}, `${plural(countNodes([item]), "node")}, ${item.open ? "open" : "folded"}.`), el("button", { onclick: () => this.toggle(item) }, item.open ? "Fold" : "Open"));
      return;
    }
    const n = item.node, list = el("dl");
    const say = (name, value) => { if (value) list.append(el("dt", {}, name), el("dd", {}, value)); };
    say("outputs", n.types.join(", ") || "none");
    say("line", place(n));
    say("effects", n.effects.join(", "));
    say("inside", n.regions.map((r) => `${r.title}: ${plural([...nodesOf(r)].length, "node")}`).join(", "));
    if (n.runs) say("time", `${seconds(n.seconds)} in ${plural(n.runs, "run")}`);
    side.append(el("h2", {}, n.op), el("pre", {}, coloured(n.text)), list);
    if (sourceOf(n)) side.append(el("p", { class: "legend", style: "margin: 0 0 4px" }, "Your line"), el("pre", {}, coloured(sourceOf(n))));
    if (item.inner.length) side.append(el("p", {}, el("button", { onclick: () => this.toggle(item) }, item.open ? "Fold" : "Open")));
    side.append(legend());
  }
}

function legend() {
  const line = (kind) => svg("svg", { viewBox: "0 0 46 10", style: "width: 46px; height: 10px; cursor: default" }, svg("path", { class: `edge ${kind}`, d: "M2 5 L44 5" }));
  const box = (style) => svg("svg", { viewBox: "0 0 46 18", style: "width: 46px; height: 18px; cursor: default" }, svg("rect", { x: 2, y: 2, width: 42, height: 14, rx: 5, style: `fill: var(--node); ${style}` }));
  const made = el("div", { class: "key" });
  made.append(line("data"), "a value", line("resource"), "a resource that is read or written", line("control"), "must run after", box("stroke: var(--control); stroke-width: 1.6"), "has an effect, or may fail", box("stroke: var(--resource); stroke-width: 2"), "an input that is written");
  return made;
}

// ---- start

function theme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}

function find(enter) {
  const box = document.getElementById("search");
  if (!box.value.trim()) { if (picture && current === "graph") picture.search(""); return; }
  if (current !== "graph") { showView("graph"); box.focus(); }
  const count = picture.search(box.value);
  box.title = plural(count, "node");
  if (enter) { picture.next(); box.focus(); }
}

function pressed(e) {
  const typing = e.target instanceof HTMLInputElement;
  if (e.key === "Escape" && typing) { e.target.value = ""; find(false); e.target.blur(); return; }
  if (typing || e.ctrlKey || e.metaKey || e.altKey || document.getElementById("help").open) return;
  const at = Number(e.key);
  if (at >= 1 && at <= VIEWS.length) { showView(VIEWS[at - 1][0]); return; }
  if (e.key === "/") { e.preventDefault(); document.getElementById("search").focus(); return; }
  if (e.key === "t") { theme(); return; }
  if (e.key === "?") { document.getElementById("help").showModal(); return; }
  if (current === "graph") graphKey(e);
}

function graphKey(e) {
  const acts = { o: () => picture.foldAll(true), c: () => picture.foldAll(false), "+": () => picture.zoom(1.25), "=": () => picture.zoom(1.25), "-": () => picture.zoom(0.8), 0: () => picture.fit() };
  const turn = (by) => { const to = stage + by; if (to >= 0 && to < DATA.stages.length) { stage = to; picture = null; showView("graph"); } };
  if (acts[e.key]) acts[e.key]();
  else if (e.key === "[") turn(-1);
  else if (e.key === "]") turn(1);
  else if (e.key === "Enter" && !(e.target instanceof HTMLButtonElement)) picture.toggle(picture.chosen);
  else if (e.key.startsWith("Arrow")) { e.preventDefault(); picture.step(e.key); }
}

function start() {
  document.getElementById("name").textContent = DATA.name;
  const count = [...nodesOf(DATA.stages[0].graph)].length;
  const few = (list) => (list.length > 4 ? [...list.slice(0, 3), `${list.length - 3} more`] : list).join(", ");
  const facts = [`(${few(DATA.signature)}) → ${few(DATA.outputs) || "nothing"}`, plural(count, "node")];
  if (DATA.timed) facts.push(`${seconds(DATA.total)} with clocks`);
  document.getElementById("facts").textContent = clip(facts.join("  ·  "), 140);
  const tabs = document.getElementById("tabs");
  for (const [name, title] of VIEWS) tabs.append(el("button", { role: "tab", "data-view": name, onclick: () => showView(name) }, title));
  tabs.addEventListener("keydown", (e) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!by) return;
    e.stopPropagation();
    const at = VIEWS.findIndex((v) => v[0] === current);
    showView(VIEWS[(at + by + VIEWS.length) % VIEWS.length][0]);
    tabs.querySelector('[aria-selected="true"]').focus();
  });
  document.getElementById("search").addEventListener("input", () => find(false));
  document.getElementById("search").addEventListener("keydown", (e) => { if (e.key === "Enter") find(true); });
  document.getElementById("theme").addEventListener("click", theme);
  document.getElementById("keys").addEventListener("click", () => document.getElementById("help").showModal());
  document.addEventListener("keydown", pressed);
  window.addEventListener("resize", () => { if (current === "graph" && picture) picture.fit(true); });
  showView(location.hash.slice(1) || "source");
  document.documentElement.dataset.ready = "yes";
}

start();
