// Regions are drawn, moved, renamed and deleted here, by mouse and by keyboard.

import {h, s, $, show} from "./dom.js";
import {placeOf} from "./picture.js";

const PAUSE_MS = 500, NEAR = 7, MARGIN = 36;
const HELP = "Drag a region or a corner, or focus it and use the arrow keys (Shift: five cells, Alt: a tenth). Drag a small dot, or press Insert on a corner, for a new corner; Delete removes what is focused.";
const NEW_HELP = "Click the corners one after the other, and the first one again at the end. With keys: arrows move, Space sets a corner, Backspace takes it back, Enter ends, Escape gives up.";
let map = null, svg = null, layer = null, isOn = false, chosen = null, shapes = new Map(), on = null, timer = 0, unsent = null, fresh = null;

export const isDrawing = () => isOn;

// `handlers`: begun(), shape(name, polygons), rename(name, to), remove(name); the last three return whether it was done.
export function setUpDrawing(handlers) {
  on = handlers;
  $("draw").addEventListener("click", () => { isOn = !isOn; fresh = null; settle(); redraw(); if (isOn) on.begun(); });
  $("draw-region").addEventListener("change", () => { choose($("draw-region").value); layer.querySelector("[data-key=shape]")?.focus(); });
  $("draw-name").addEventListener("change", rename);
  $("draw-new").addEventListener("click", begin);
  $("draw-delete").addEventListener("click", () => remove());
}

// What of the outlines has the focus, before the map is drawn again.
export const focusedOutline = () => layer?.contains(document.activeElement) ? document.activeElement.dataset.key : null;

// After every drawing of the map: show its outlines again, with what was chosen and focused.
export function drawOutlines(found, drawing, focused = focusedOutline()) {
  const held = shapes.get(unsent);  // it has been moved on while the map was under way
  map = found; svg = drawing;
  shapes = new Map((map.outlines?.regions || []).map(each => [each.name, structuredClone(each.polygons)]));
  if (held && shapes.has(unsent)) shapes.set(unsent, held); else unsent = null;
  $("draw").disabled = !map.outlines;
  $("draw-fixed").textContent = map.whyFixed || "";
  if (!map.outlines) isOn = false;
  redraw();
  if (fresh && isOn) svg.focus();
  else if (focused) (layer.querySelector(`[data-key="${focused}"]`) || layer.querySelector("[data-key=shape]"))?.focus();
}

function redraw() {
  $("draw").setAttribute("aria-expanded", isOn);
  $("draw").textContent = isOn ? "Done" : "Edit regions";
  show($("draw-tools"), isOn);
  svg.classList.toggle("drawing", isOn);
  svg.setAttribute("role", isOn ? "group" : "img");
  const around = isOn ? MARGIN : 0;
  svg.setAttribute("viewBox", `${-around} ${-around} ${360 + 2 * around} ${(map.height + 2 * around).toFixed(1)}`);
  layer?.remove();
  layer = s("g", {class: "outlines"});
  svg.append(layer);
  svg.onpointerdown = svg.onpointermove = svg.ondblclick = svg.onkeydown = null;
  if (!isOn) return;
  if (!shapes.has(chosen)) chosen = shapes.keys().next().value ?? null;
  $("draw-region").replaceChildren(...[...shapes.keys()].map(name => h("option", {value: name, selected: name === chosen}, label(name))));
  $("draw-name").value = chosen ?? "";
  $("draw-name").disabled = $("draw-delete").disabled = Boolean(specialOf(chosen));
  $("draw-help").textContent = fresh ? NEW_HELP : HELP;
  if (fresh) drawFresh(); else drawShapes();
}

const specialOf = name => map.outlines.regions.find(each => each.name === name)?.special;
const label = name => specialOf(name) ? `${name} (${specialOf(name)})` : name;
function choose(name) { settle(); chosen = name; redraw(); }

// Coordinates -------------------------------------------------------------------------------------

// The grid may lie at an angle in the coordinates of the file.
function toPage([x, y]) {
  const {corner, column, row} = map.outlines, dx = x - corner[0], dy = y - corner[1], area = column[0] * row[1] - column[1] * row[0];
  return [map.left + (dx * row[1] - dy * row[0]) / area * map.scale, (dy * column[0] - dx * column[1]) / area * map.scale];
}

function toFile([x, y]) {
  const {corner, column, row} = map.outlines, across = (x - map.left) / map.scale, down = y / map.scale;
  return [0, 1].map(at => {
    const size = Math.hypot(column[at], row[at]), digits = Math.max(0, Math.min(12, 3 - Math.floor(Math.log10(size))));
    return Number((corner[at] + across * column[at] + down * row[at]).toFixed(digits));
  });
}

const pathOf = polygons => polygons.flat().map(ring => `M${ring.map(each => toPage(each).map(value => value.toFixed(2)).join(" ")).join("L")}z`).join("");

// A corner of another region that is near, so that borders can meet.
function snapped(place, name) {
  let best = place, near = NEAR;
  for (const [other, polygons] of shapes) if (other !== name) for (const corner of polygons.flat(2)) {
    const at = toPage(corner), far = Math.hypot(at[0] - place[0], at[1] - place[1]);
    if (far < near) { near = far; best = corner; }
  }
  return best === place ? toFile(place) : [...best];
}

// Regions and corners -----------------------------------------------------------------------------

function drawShapes() {
  const others = [...shapes].filter(([name]) => name !== chosen).map(([name, polygons]) =>
    s("path", {class: "shape", d: pathOf(polygons), tabindex: -1, onpointerdown: event => { choose(name); layer.querySelector("[data-key=shape]").focus(); grab(event, moveAll); }}, s("title", {}, name)));
  layer.replaceChildren(...others, ...(chosen === null ? [] : chosenParts()));
}

function chosenParts() {
  const polygons = shapes.get(chosen);
  const body = s("path", {class: "shape chosen", d: pathOf(polygons), tabindex: 0, role: "button", "data-key": "shape",
    "aria-label": `Region ${chosen}: arrow keys move it, Enter goes to its corners`,
    onpointerdown: event => grab(event, moveAll), onkeydown: event => keyed(event, moveAll, remove, () => layer.querySelector(".corner")?.focus()), onblur: left});
  const corners = [], middles = [];
  polygons.forEach((rings, area) => rings.forEach((ring, hole) => ring.forEach((corner, at) => {
    const [cx, cy] = toPage(corner), next = toPage(ring[(at + 1) % ring.length]), key = `${area}-${hole}-${at}`;
    const move = by => moveCorner(ring, at, by), drop = () => dropCorner(ring, at), add = () => addCorner(ring, at, `${area}-${hole}-${at + 1}`);
    corners.push(s("circle", {class: "corner", cx, cy, r: 5, tabindex: 0, role: "button", "data-key": key, "aria-label": `Corner ${at + 1} of ${ring.length} of ${chosen}`,
      onpointerdown: event => grab(event, move), onkeydown: event => keyed(event, move, drop, null, add), onblur: left}));
    middles.push(s("circle", {class: "middle", cx: (cx + next[0]) / 2, cy: (cy + next[1]) / 2, r: 3.5,
      onpointerdown: event => { add(); grab(event, by => moveCorner(ring, at + 1, by)); }}));
  })));
  return [body, ...middles, ...corners];
}

// Something of the chosen region has moved; with another number of corners it is drawn again.
function changed(isSame = true) {
  unsent = chosen;
  if (!isSame) { drawShapes(); return; }
  const polygons = shapes.get(chosen), rings = polygons.flat();
  layer.querySelector("[data-key=shape]").setAttribute("d", pathOf(polygons));
  const corners = layer.querySelectorAll(".corner"), middles = layer.querySelectorAll(".middle");
  let count = 0;
  for (const ring of rings) ring.forEach((corner, at) => {
    const [x, y] = toPage(corner), next = toPage(ring[(at + 1) % ring.length]);
    put(corners[count], x, y);
    put(middles[count], (x + next[0]) / 2, (y + next[1]) / 2);
    count += 1;
  });
}

function put(circle, x, y) { circle.setAttribute("cx", x); circle.setAttribute("cy", y); }

// `by` is a place to go to, or a step {dx, dy} in units of the drawing.
function moveCorner(ring, at, by) {
  const from = toPage(ring[at]);
  ring[at] = by.to ? (by.free ? toFile(by.to) : snapped(by.to, chosen)) : toFile([from[0] + by.dx, from[1] + by.dy]);
  changed();
}

function moveAll({dx, dy}) {
  for (const ring of shapes.get(chosen).flat()) ring.forEach((corner, at) => {
    const [x, y] = toPage(corner);
    ring[at] = toFile([x + dx, y + dy]);
  });
  changed();
}

function dropCorner(ring, at) {
  if (ring.length <= 3) { $("draw-help").textContent = "An area keeps at least 3 corners."; return; }
  ring.splice(at, 1);
  changed(false);
  (layer.querySelectorAll(".corner")[Math.max(0, at - 1)])?.focus();
  settle();
}

function addCorner(ring, at, key) {
  const a = ring[at], b = ring[(at + 1) % ring.length];
  ring.splice(at + 1, 0, [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2]);
  changed(false);
  layer.querySelector(`[data-key="${key}"]`)?.focus();
}

function grab(event, move) {
  if (event.button !== 0) return;
  event.preventDefault();
  event.stopPropagation();
  if (event.target.isConnected) event.target.focus();
  let last = placeOf(svg, event);
  const moves = next => {
    const to = placeOf(svg, next);
    move({to, free: next.altKey, dx: to[0] - last[0], dy: to[1] - last[1]});
    last = to;
  };
  const end = () => { removeEventListener("pointermove", moves); removeEventListener("pointerup", end); removeEventListener("pointercancel", end); settle(); };
  addEventListener("pointermove", moves);
  addEventListener("pointerup", end);
  addEventListener("pointercancel", end);
}

function keyed(event, move, drop, enter, add) {
  const turn = {ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0]}[event.key];
  const far = map.scale * (event.shiftKey ? 5 : event.altKey ? .1 : 1);
  const does = turn ? () => move({dx: far * turn[0], dy: far * turn[1]}) : {Delete: drop, Insert: add, "+": add, Enter: enter,
    Escape: () => layer.querySelector("[data-key=shape]")?.focus()}[event.key];
  if (!does) return;
  event.preventDefault();
  event.stopPropagation();
  does();
  clearTimeout(timer);
  if (unsent) timer = setTimeout(settle, PAUSE_MS);
}

// Focus has gone elsewhere; not when the drawing itself is made again.
function left(event) { if (event.target.isConnected && event.relatedTarget) settle(); }

// Sends the shape that was changed, once nothing moves any more.
async function settle() {
  clearTimeout(timer);
  if (unsent === null) return;
  const name = unsent;
  unsent = null;
  if (!await on.shape(name, shapes.get(name))) drawOutlines(map, svg);
}

async function rename() {
  const to = $("draw-name").value.trim(), name = chosen;
  if (!to || to === name) { $("draw-name").value = name; return; }
  await settle();
  chosen = to;
  if (!await on.rename(name, to)) { chosen = name; $("draw-name").value = name; }
}

async function remove() {
  await settle();
  await on.remove(chosen);
}

// A new region ------------------------------------------------------------------------------------

function begin() {
  settle();
  fresh = {corners: [], at: [map.left + map.width / 2, map.height / 2]};
  redraw();
  svg.focus();
}

function drawFresh() {
  const {corners, at} = fresh, line = [...corners, at].map(each => each.map(value => value.toFixed(1)).join(" ")).join("L");
  layer.replaceChildren(...[...shapes].map(([, polygons]) => s("path", {class: "shape", d: pathOf(polygons)})),
    s("path", {class: "shape chosen open", d: `M${line}`}),
    ...corners.map(([cx, cy], index) => s("circle", {class: "corner", cx, cy, r: index === 0 ? 6.5 : 4})),
    s("path", {class: "cross", d: `M${at[0] - 9} ${at[1]}h18M${at[0]} ${at[1] - 9}v18`}));
  svg.onpointermove = event => { fresh.at = placeOf(svg, event); drawFresh(); };
  svg.onpointerdown = event => { event.preventDefault(); svg.focus(); fresh.at = placeOf(svg, event); setCorner(); };
  svg.ondblclick = () => finish();
  svg.onkeydown = keyedFresh;
}

function setCorner() {
  const {corners, at} = fresh, first = corners[0];
  if (corners.length > 2 && Math.hypot(first[0] - at[0], first[1] - at[1]) < NEAR) { finish(); return; }
  corners.push([...at]);
  $("draw-help").textContent = `${corners.length} corner${corners.length === 1 ? "" : "s"} set. ${NEW_HELP}`;
  drawFresh();
}

function keyedFresh(event) {
  const turn = {ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0]}[event.key];
  const does = {" ": setCorner, Enter: finish, Backspace: () => { fresh.corners.pop(); drawFresh(); }, Escape: () => { fresh = null; redraw(); $("draw-new").focus(); }}[event.key];
  if (!turn && !does) return;
  event.preventDefault();
  event.stopPropagation();
  if (does) { does(); return; }
  const far = map.scale * (event.shiftKey ? 5 : event.altKey ? .1 : 1);
  fresh.at = [fresh.at[0] + far * turn[0], fresh.at[1] + far * turn[1]];
  drawFresh();
}

async function finish() {
  // A double click sets its last corner twice.
  const corners = fresh.corners.filter((each, at, all) => at === 0 || Math.hypot(each[0] - all[at - 1][0], each[1] - all[at - 1][1]) > 1);
  if (corners.length < 3) { $("draw-help").textContent = `A region has at least 3 corners. ${NEW_HELP}`; return; }
  let count = shapes.size + 1;
  while (shapes.has(`S${count}`)) count += 1;
  const name = `S${count}`;
  fresh = null;
  if (await on.shape(name, [[corners.map(each => snapped(each, name))]])) {
    chosen = name;
    redraw();
    $("draw-name").focus();
    $("draw-name").select();
  } else redraw();
}
