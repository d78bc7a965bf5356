"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const { nodes, transitions } = data.filling;
const last = nodes.length - 1;
const COLUMN = 150, ROW = 66, BOX = [112, 46], TOP = 34, MOST_PATHS = 3;
const ends = "#a9a9a9";
let path = [];       // nodes of the reading that is lit
let pinned = null;   // state that was clicked; hovering another shows that one for the time being

const byId = (id) => document.getElementById(id);
const colour = (mask) => (mask ? data.colours[(mask - 1) % data.colours.length] : ends);
const percent = (p) => {
  const value = 100 * p;
  if (value > 0 && value < 0.01) return "<0.01%";
  return `${value >= 9.95 ? value.toFixed(1) : Number(value.toPrecision(2))}%`;
};
const cut = (text, most) => ([...text].length > most ? `${[...text].slice(0, most - 1).join("")}…` : text);
const nameOf = (node) => (node.mask ? `mask ${node.mask}, state ${node.copy}` : `${node.group}, state ${node.copy}`);
const wordOf = (u) => nodes[u].words[0].text;

/** An element with attributes and children; text is never read as markup. */
function make(name, attributes = {}, ...children) {
  const svg = ["g", "rect", "text", "path", "title", "style"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** White mixed with a colour; 0 is white. */
function tint(hex, strength) {
  const parts = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return `rgb(${parts.map((c) => Math.round(255 - strength * (255 - c))).join(",")})`;
}

// ---- Sentence

function drawSentence() {
  const { filling } = data, sentence = byId("sentence");
  let mask = 0;
  filling.text.split("<mask>").forEach((piece, i, pieces) => {
    sentence.append(piece);
    if (i === pieces.length - 1) return;
    mask += 1;
    const number = mask;
    const chip = make("button", { class: "mask", style: `background:${tint(colour(number), 0.6)}`, "data-mask": number }, `mask ${number}`);
    const states = nodes.filter((node) => node.mask === number);
    const likeliest = states.reduce((a, b) => (b.visit_prob > a.visit_prob ? b : a));
    chip.addEventListener("pointerenter", () => { chip.classList.add("lit"); light((node) => node.mask === number); });
    chip.addEventListener("pointerleave", () => { chip.classList.remove("lit"); show(pinned); });
    chip.addEventListener("click", () => pin(likeliest.index));
    sentence.append(chip);
  });
  document.title = filling.text;
  const words = filling.masks === 1 ? "1 word" : `${filling.masks} words`;
  byId("summary").textContent = `${filling.masks === 1 ? "1 mask" : `${filling.masks} masks`}, k = ${filling.k}: `
    + `${nodes.length} states. By the transitions, ${percent(filling.length_prob)} of the paths have ${words}.`;
  const unknown = filling.unknown.map((symbol) => `“${symbol}” is not in the dictionary: the model reads <unk> there.`);
  for (const note of [...unknown, ...filling.notes]) byId("notes").append(make("li", {}, note));
}

// ---- Graph

const place = {};    // centre of each state that is drawn

function drawNodes(svg) {
  const shown = data.shown.map((u) => nodes[u]);
  const columns = [...new Set(shown.map((node) => node.token))].map((token) => shown.filter((node) => node.token === token));
  const tallest = Math.max(...columns.map((column) => column.length));
  const width = columns.length * COLUMN, height = TOP + (tallest + 0.5) * ROW;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.append(make("g", { id: "edges" }));
  columns.forEach((column, c) => {
    const x = (c + 0.5) * COLUMN;
    const shift = column.length > 1 ? (c % 2 ? 0.25 : -0.25) : 0; // edges over a column pass between its states
    const y = (r) => TOP + ((tallest + 0.5) / 2 + r - (column.length - 1) / 2 + shift) * ROW;
    svg.append(make("text", { x, y: y(0) - BOX[1] / 2 - 9, "font-size": 12, fill: "#555" }, column[0].group));
    column.forEach((node, r) => {
      place[node.index] = [x, y(r)];
      svg.append(drawNode(node, x, y(r)));
    });
  });
}

function drawNode(node, x, y) {
  const [width, height] = BOX, [first, ...others] = node.words;
  const fill = tint(colour(node.mask), 0.25 + 0.75 * Math.sqrt(Math.min(node.visit_prob, 1)));
  const below = [percent(first.prob), ...(node.mask ? others.slice(0, 2).map((word) => cut(word.text, 6)) : [])].join(" · ");
  const box = make("g", { class: "node", tabindex: 0, role: "button", "data-node": node.index, "aria-label": `${nameOf(node)}: ${first.text}` },
    make("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 8, fill }),
    make("text", { x, y: y - 2, "font-size": 15, "font-weight": 600 }, cut(first.text, 12)),
    make("text", { x, y: y + 15, "font-size": 10.5, fill: "#333" }, below));
  box.addEventListener("pointerenter", (event) => { if (event.pointerType !== "touch") show(node.index); });
  box.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") show(pinned); });
  box.addEventListener("click", () => pin(node.index));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pin(node.index); }
  });
  return box;
}

function drawEdges() {
  const least = byId("slider").value / 100, group = byId("edges");
  const steps = new Set(path.slice(1).map((v, i) => `${path[i]}-${v}`));
  byId("least").textContent = percent(least);
  const edges = [];
  for (const u of data.shown) {
    const after = data.shown.filter((v) => v > u);
    const strongest = Math.max(...after.map((v) => transitions[u][v]));
    for (const v of after) {
      const p = transitions[u][v], lit = steps.has(`${u}-${v}`);
      if (lit || (p > 0 && (p >= least || p === strongest))) edges.push({ u, v, p, lit });
    }
  }
  edges.sort((a, b) => a.lit - b.lit || a.p - b.p);
  group.replaceChildren(...edges.map(drawEdge));
}

function drawEdge({ u, v, p, lit }) {
  const [x0, y0] = place[u], [x1, y1] = place[v], half = BOX[0] / 2;
  const turn = Math.max(14, 0.5 * (x1 - x0 - BOX[0]));
  const bend = nodes[u].token === nodes[v].token ? 18 + 6 * Math.round((y1 - y0) / ROW) : 0;
  const d = bend
    ? `M${x0 + half},${y0 + 6} C${x0 + half + bend},${y0 + 6} ${x1 + half + bend},${y1 - 6} ${x1 + half},${y1 - 6}`
    : `M${x0 + half},${y0} C${x0 + half + turn},${y0} ${x1 - half - turn},${y1} ${x1 - half},${y1}`;
  return make("path", { class: lit ? "edge path" : "edge", d, "data-edge": `${u}-${v}`, stroke: lit ? "#000" : tint(colour(nodes[u].mask), 1),
    "stroke-width": Math.max(lit ? 1.8 : 0.6, 6 * p), "stroke-opacity": lit ? 0.85 : 0.25 + 0.65 * p },
  make("title", {}, `${wordOf(u)} → ${wordOf(v)}: ${percent(p)}`));
}

/** The drawing as the text of an SVG file. */
function drawingAsSvg() {
  const copy = byId("drawing").cloneNode(true);
  copy.setAttribute("font-family", "system-ui, sans-serif");
  copy.prepend(make("style", {}, document.querySelector("style").textContent));
  return new XMLSerializer().serializeToString(copy);
}

/** Dims what `kept` does not name. */
function light(kept) {
  for (const box of document.querySelectorAll(".node")) {
    box.classList.toggle("faint", !kept(nodes[box.dataset.node]));
  }
  for (const edge of document.querySelectorAll(".edge")) {
    edge.classList.toggle("faint", !edge.dataset.edge.split("-").some((u) => kept(nodes[u])));
  }
}

/** Lights the path of a reading, and presses its button. */
function lightPath(reading, button) {
  path = reading.nodes;
  for (const box of document.querySelectorAll(".node")) {
    box.classList.toggle("path", path.includes(Number(box.dataset.node)));
  }
  for (const other of document.querySelectorAll("button.reading")) {
    other.setAttribute("aria-pressed", other === button);
  }
  drawEdges();
  show(pinned);
}

// ---- A state

/** The most probable paths from the first to each state and from each to the last, by the transitions. */
const [before, beyond] = (() => {
  const best = (lists) => lists.flat().sort((a, b) => b.p - a.p).slice(0, MOST_PATHS);
  const before = [[{ p: 1, nodes: [0] }]], beyond = [];
  for (let v = 1; v <= last; v += 1) {
    before[v] = best(before.map((list, u) => list.filter(() => transitions[u][v] > 0)
      .map((one) => ({ p: one.p * transitions[u][v], nodes: [...one.nodes, v] }))));
  }
  beyond[last] = [{ p: 1, nodes: [] }];
  for (let u = last - 1; u >= 0; u -= 1) {
    beyond[u] = best(nodes.slice(u + 1).map(({ index: v }) => beyond[v].filter(() => transitions[u][v] > 0)
      .map((one) => ({ p: transitions[u][v] * one.p, nodes: [v, ...one.nodes] }))));
  }
  return [before, beyond];
})();

function pathsThrough(u) {
  const all = before[u].flatMap((a) => beyond[u].map((b) => ({ p: a.p * b.p, nodes: [...a.nodes, ...b.nodes] })));
  return all.sort((a, b) => b.p - a.p).slice(0, MOST_PATHS);
}

function row(left, p, bar) {
  const cell = make("td", {}, left);
  if (bar) cell.append(make("div", { class: "bar", style: `width:${100 * p}%` }));
  return make("tr", {}, cell, make("td", { class: "number" }, percent(p)));
}

function edgeTable(u, others, probability, id) {
  const strong = others.map((v) => [v, probability(v)]).filter(([, p]) => p >= 0.0005).sort((a, b) => b[1] - a[1]);
  if (!strong.length) return make("p", { class: "quiet", id }, "none from 0.05%");
  return make("table", { id }, ...strong.slice(0, 6).map(([v, p]) => row(`${wordOf(v)} (${nameOf(nodes[v])})`, p)));
}

/** Shows a state in the panel and its edges in the graph; null for none. */
function show(u) {
  const panel = byId("state");
  for (const box of document.querySelectorAll(".node")) box.classList.toggle("lit", Number(box.dataset.node) === u);
  if (u === null) {
    light(() => true);
    panel.replaceChildren(make("p", { class: "quiet" }, "Point at a state, or tap it, to see its words, its edges and the paths through it."));
    return;
  }
  const node = nodes[u];
  light(() => true);
  for (const edge of document.querySelectorAll(".edge")) {
    edge.classList.toggle("faint", !edge.dataset.edge.split("-").includes(String(u)) && !edge.classList.contains("path"));
  }
  panel.replaceChildren(
    make("h2", {}, nameOf(node)),
    make("p", { class: "quiet" }, `${percent(node.visit_prob)} of the paths pass this state.`),
    make("h3", {}, "Words"),
    make("table", { id: "words" }, ...node.words.map((word) => row(word.text, word.prob, true))),
    make("h3", {}, "Edges to"),
    edgeTable(u, nodes.map((_, v) => v).filter((v) => v > u), (v) => transitions[u][v], "to"),
    make("h3", {}, "Edges from"),
    edgeTable(u, nodes.map((_, v) => v).filter((v) => v < u), (v) => transitions[v][u], "from"),
    make("h3", {}, "Most probable paths through it"),
    make("table", { id: "paths" }, ...pathsThrough(u).map((one) => row(one.nodes.map(wordOf).join(" → "), one.p))));
}

function pin(u) {
  pinned = pinned === u ? null : u;
  show(pinned);
}

// ---- Readings

function drawReadings() {
  const { filling } = data, section = byId("readings");
  const exactly = filling.masks === 1 ? "1 word" : `${filling.masks} words`;
  section.append(make("h2", {}, "Decodings"), make("p", { class: "hint" }, "Select a decoding to highlight its path. log P, in nats: of this path with its tokens / summed over all paths with these tokens."));
  for (const [title, readings] of [
    [`Best of ${exactly}`, [filling.best]],
    ["Best of any number of words", [filling.best_free]],
    [`Sampled, ${exactly}`, filling.samples],
    ["Sampled, any number of words", filling.samples_free],
  ]) {
    if (readings.length) section.append(make("h3", {}, title));
    for (const reading of readings) {
      section.append(reading ? drawReading(reading) : make("p", { class: "quiet" }, "There is none: no path has so many states."));
    }
  }
}

function drawReading(reading) {
  const figures = `log P ${reading.log_prob.toFixed(2)} / ${reading.total_log_prob.toFixed(2)} · states ${reading.nodes.join(" ")}`;
  const button = make("button", { class: "reading", "aria-pressed": "false" },
    make("span", {}, reading.text || "(no words)"), make("small", {}, figures));
  button.addEventListener("click", () => lightPath(reading, button));
  return button;
}

// ---- Start

byId("save").addEventListener("click", () => {
  byId("save").href = URL.createObjectURL(new Blob([drawingAsSvg()], { type: "image/svg+xml" }));
});
drawSentence();
drawNodes(byId("drawing"));
drawReadings();
byId("slider").value = Math.round(100 * data.min_edge);
byId("slider").addEventListener("input", () => { drawEdges(); show(pinned); });
lightPath(data.filling.best || data.filling.best_free, document.querySelector("button.reading"));
if (parent !== window) { // in a frame, whose owner cannot see how high this page is
  document.body.classList.add("framed");
  new ResizeObserver(() => parent.postMessage({ pageHeight: document.documentElement.offsetHeight }, "*")).observe(document.body);
}
