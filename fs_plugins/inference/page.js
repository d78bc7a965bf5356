"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const { graph, pictures } = data, { states, transitions } = graph;
const last = states.length - 1;
const COLUMN = 162, ROW = 80, BOX = [134, 60], TOP = 34, MOST_PATHS = 3;
const ENDS = "#a9a9a9";
let decoding = null; // the one that is lit
let pinned = null;   // state that was clicked; hovering another shows that one for the time being

const byId = (id) => document.getElementById(id);
const colour = (mask) => (mask ? data.colours[(mask - 1) % data.colours.length] : ENDS);
const percent = (p) => {
  const value = 100 * p;
  if (value > 0 && value < 0.01) return "<0.01%";
  if (value >= 99.95) return "100%";
  return `${value >= 9.95 ? value.toFixed(1) : Number(value.toPrecision(2))}%`;
};
const cut = (text, most) => ([...text].length > most ? `${[...text].slice(0, most - 1).join("")}…` : text);
const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
const tokenOf = (u) => states[u].tokens[0].text;
const groupOf = (u) => states[u].name.split(", ")[0];
/** Share of the paths, drawn by the transitions, that take an edge. */
const flow = (u, v) => states[u].visit_prob * transitions[u][v];
/** A path by its states, without the ends' first and last. */
const pathOf = (path) => path.filter((u) => u !== 0 && u !== last).map((u) => states[u].name).join(" → ") || "no states between";

/** An element with attributes and children; text is never read as markup. */
function make(name, attributes = {}, ...children) {
  const svg = ["g", "rect", "text", "path", "title"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** A colour on the page, which is white; strength 0 is the page's own. */
function tint(hex, strength) {
  const parts = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return `rgb(${parts.map((part) => Math.round(255 + strength * (part - 255))).join(",")})`;
}

// ---- Sentence

function drawSentence() {
  graph.text.split("<mask>").forEach((piece, i) => {
    if (i) byId("sentence").append(make("mark", { class: "mask", style: `background:${tint(colour(i), 0.6)}` }, `mask ${i}`));
    byId("sentence").append(piece);
  });
  document.title = graph.text;
  byId("summary").textContent = `${count(graph.masks, "mask")}, k = ${graph.k}: ${states.length} states. `
    + `By the transitions, ${percent(graph.length_prob)} of the paths have ${count(graph.masks, "token")}.`;
  const unknown = graph.unknown.map((symbol) => `“${symbol}” is not in the dictionary: the model reads <unk> there.`);
  byId("notes").replaceChildren(...[...unknown, ...graph.notes].map((note) => make("li", {}, note)));
}

// ---- Graph

const place = {};    // centre of each state that is drawn

function drawStates(svg) {
  const shown = data.shown.map((u) => states[u]);
  const columns = [...new Set(shown.map((state) => state.token))].map((token) => shown.filter((state) => state.token === token));
  const tallest = Math.max(...columns.map((column) => column.length));
  const width = columns.length * COLUMN, height = TOP + (tallest + 0.5) * ROW;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.style.setProperty("--width", `${width}px`);  // shrinks by a fifth before it has to scroll
  columns.forEach((column, c) => {
    const x = (c + 0.5) * COLUMN;
    const shift = column.length > 1 ? (c % 2 ? 0.25 : -0.25) : 0; // edges over a column pass between its states
    const y = (r) => TOP + ((tallest + 0.5) / 2 + r - (column.length - 1) / 2 + shift) * ROW;
    svg.append(label(x, y(0) - BOX[1] / 2 - 9, 12, groupOf(column[0].index), { fill: "#444" }));
    column.forEach((state, r) => {
      place[state.index] = [x, y(r)];
      svg.append(drawState(state, x, y(r)));
    });
  });
}

function label(x, y, size, text, more = {}) {
  return make("text", { x, y, "font-size": size, ...more }, text);
}

function drawState(state, x, y) {
  const [width, height] = BOX, [first, ...others] = state.tokens;
  const fill = tint(colour(state.mask), 0.15 + 0.85 * Math.sqrt(Math.min(state.visit_prob, 1)));
  const below = [percent(first.prob), ...(state.mask ? others.slice(0, 2).map((token) => cut(token.text, 6)) : [])].join(" · ");
  const number = state.name.split(", ")[1];
  const visit = `visited ${percent(state.visit_prob)}`;
  const box = make("g", { class: "node", tabindex: 0, role: "button", "data-node": state.index, "aria-label": `${state.name}: ${first.text}, ${visit}` },
    make("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 8, fill }),
    label(x, y - 10, 15, cut(first.text, 12), { "font-weight": 600 }),
    label(x, y + 6, 10.5, below),
    label(x, y + 22, 10, `${number} · ${visit}`));
  box.addEventListener("pointerenter", (event) => { if (event.pointerType !== "touch") show(state.index); });
  box.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") show(pinned); });
  box.addEventListener("click", () => pin(state.index));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pin(state.index); }
  });
  return box;
}

function drawEdges() {
  const least = byId("slider").value / 100, path = decoding.states;
  const steps = new Set(path.slice(1).map((v, i) => `${path[i]}-${v}`));
  byId("least").textContent = percent(least);
  const pairs = data.shown.flatMap((u) => data.shown.filter((v) => v > u).map((v) => [u, v]));
  const edges = pairs.map(([u, v]) => ({ u, v, p: flow(u, v), lit: steps.has(`${u}-${v}`) }))
    .filter(({ p, lit }) => lit || (p > 0 && p >= least))
    .sort((a, b) => a.lit - b.lit || a.p - b.p);
  byId("edges").replaceChildren(...edges.map(drawEdge));
  for (const box of document.querySelectorAll(".node")) box.classList.toggle("path", path.includes(Number(box.dataset.node)));
}

function drawEdge({ u, v, p, lit }) {
  const [x0, y0] = place[u], [x1, y1] = place[v], half = BOX[0] / 2;
  const turn = Math.max(14, 0.5 * (x1 - x0 - BOX[0]));
  const bend = states[u].token === states[v].token ? 18 + 6 * Math.round((y1 - y0) / ROW) : 0;
  const d = bend
    ? `M${x0 + half},${y0 + 6} C${x0 + half + bend},${y0 + 6} ${x1 + half + bend},${y1 - 6} ${x1 + half},${y1 - 6}`
    : `M${x0 + half},${y0} C${x0 + half + turn},${y0} ${x1 - half - turn},${y1} ${x1 - half},${y1}`;
  return make("path", { class: lit ? "edge path" : "edge", d, "data-edge": `${u}-${v}`,
    stroke: colour(states[u].mask), "stroke-width": Math.max(0.8, 6 * p), "stroke-opacity": 0.25 + 0.65 * p },
  make("title", {}, `${states[u].name} → ${states[v].name}: ${percent(p)} of the paths; transition ${percent(transitions[u][v])}`));
}

/** The drawing as the text of an SVG file. */
const drawingAsSvg = () => new XMLSerializer().serializeToString(byId("drawing"));

/** Lights the path of a decoding. */
function lightPath(chosen) {
  decoding = chosen;
  drawEdges();
  show(pinned);
}

// ---- A state

const likeliest = (paths) => paths.flat().filter(({ p }) => p > 0).sort((a, b) => b.p - a.p).slice(0, MOST_PATHS);

/** The most probable paths from the first to each state and from each to the last, by the transitions. */
const before = [[{ p: 1, path: [0] }]], beyond = [];
for (let v = 1; v <= last; v += 1) {
  before[v] = likeliest(before.map((paths, u) => paths.map(({ p, path }) => ({ p: p * transitions[u][v], path: [...path, v] }))));
}
beyond[last] = [{ p: 1, path: [] }];
for (let u = last - 1; u >= 0; u -= 1) {
  beyond[u] = likeliest(states.slice(u + 1).map(({ index: v }) => beyond[v].map(({ p, path }) => ({ p: transitions[u][v] * p, path: [v, ...path] }))));
}

function pathsThrough(u) {
  return likeliest(before[u].map((a) => beyond[u].map((b) => ({ p: a.p * b.p, path: [...a.path, ...b.path] }))));
}

function row(left, p, bar) {
  const cell = make("td", {}, left);
  if (bar) cell.append(make("div", { class: "bar", style: `width:${100 * p}%` }));
  return make("tr", {}, cell, make("td", { class: "number" }, percent(p)));
}

function edgeTable(others, probability, id) {
  const strong = others.map((v) => [v, probability(v)]).filter(([, p]) => p >= 0.0005).sort((a, b) => b[1] - a[1]);
  if (!strong.length) return make("p", { class: "quiet", id }, "none from 0.05%");
  return make("table", { id }, ...strong.slice(0, 6).map(([v, p]) => row(`${tokenOf(v)} (${states[v].name})`, p)));
}

/** Shows a state in the panel and its edges in the graph; null for none. */
function show(u) {
  const panel = byId("state");
  for (const box of document.querySelectorAll(".node")) box.classList.toggle("lit", Number(box.dataset.node) === u);
  for (const edge of document.querySelectorAll(".edge")) {
    const own = edge.dataset.edge.split("-").includes(String(u)) || edge.classList.contains("path");
    edge.classList.toggle("faint", u !== null && !own);
  }
  if (u === null) {
    panel.replaceChildren(make("p", { class: "quiet" }, "Point at a state, or tap it, to see its tokens, its edges and the paths through it."));
    return;
  }
  const state = states[u], indices = states.map((_, v) => v);
  panel.replaceChildren(
    make("h2", {}, state.name),
    make("p", { class: "quiet" }, `${percent(state.visit_prob)} of the paths visit this state.`),
    make("h3", {}, "Tokens"),
    make("table", { id: "tokens" }, ...state.tokens.map((token) => row(token.text, token.prob, true))),
    make("h3", {}, "Transitions to"),
    edgeTable(indices.filter((v) => v > u), (v) => transitions[u][v], "to"),
    make("h3", {}, "Transitions from"),
    edgeTable(indices.filter((v) => v < u), (v) => transitions[v][u], "from"),
    make("h3", {}, "Most probable paths through it"),
    make("table", { id: "paths" }, ...pathsThrough(u).map(({ p, path }) => row(pathOf(path), p))));
}

function pin(u) {
  pinned = pinned === u ? null : u;
  show(pinned);
}

// ---- Decodings

function drawDecodings() {
  const section = byId("decodings"), exactly = count(graph.masks, "token");
  section.append(make("h2", {}, "Decodings"), make("p", { class: "hint" },
    "Select a decoding to highlight its path. log P, in nats: of this path with its tokens / summed over all paths with these tokens."));
  for (const [title, decodings, sampled] of [
    [`Best of ${exactly}`, [graph.best], false],
    ["Best of any number of tokens", [graph.best_free], false],
    [`Sampled, ${exactly}`, graph.samples, true],
    ["Sampled, any number of tokens", graph.samples_free, true],
  ]) {
    if (!decodings.length) continue;
    const list = make("div", { class: Object.keys(pictures).length ? "cards" : "" });
    section.append(make("h3", {}, title), list);
    for (const chosen of decodings) {
      list.append(chosen ? drawDecoding(chosen, sampled) : make("p", { class: "quiet" }, "There is none: no path has so many states."));
    }
  }
}

function drawDecoding(chosen, sampled) {
  const times = sampled ? `${chosen.count} of ${graph.drawn} · ` : "";
  const figures = `${times}log P ${chosen.log_prob.toFixed(2)} / ${chosen.total_log_prob.toFixed(2)}`;
  const text = make("span", {}, ...chosen.pieces.map(([piece, mask]) => (mask ? make("mark", { style: `background:${tint(colour(mask), 0.5)}` }, piece) : piece)));
  const button = make("input", { type: "radio", name: "decoding" });
  button.addEventListener("change", () => lightPath(chosen));
  return make("label", { class: "decoding" }, button, ...drawPicture(pictures[chosen.text]),
    text, make("small", {}, figures), make("small", {}, pathOf(chosen.states)));
}

function drawPicture(picture) {
  if (!picture) return [];
  if (picture.fault) return [make("small", { class: "fault" }, `Not drawn: ${picture.fault}`)];
  return [make("img", { src: picture.image, alt: "", width: 240, height: 170 })];
}

// ---- Start

byId("save").addEventListener("click", () => {
  byId("save").href = URL.createObjectURL(new Blob([drawingAsSvg()], { type: "image/svg+xml" }));
});
byId("slider").value = Math.round(100 * data.min_edge);
byId("slider").addEventListener("input", () => { drawEdges(); show(pinned); });
drawSentence();
drawStates(byId("drawing"));
drawDecodings();
document.querySelector(".decoding input").click();
