// The map: regions, what is given where, the route by speed, values under the pointer, the drive.

import {h, s, $, show, number} from "./dom.js";
import {isDrawing} from "./draw.js";
import {fillPlan, picture, placeOf} from "./picture.js";

const VIEWS = [["regions", "Regions"], ["given", "Given out"], ["speed", "Speed"]];
const still = matchMedia("(prefers-reduced-motion: reduce)");
let map = null, plan = null, layers = null, view = "given", cursor = null, playing = 0, onView = null;

export function drawMap(found) {
  map = found; plan = null; cursor = null;
  layers = picture(map);
  layers.vehicle = s("circle", {class: "vehicle", r: 6.5, visibility: "hidden"});
  layers.cursor = s("rect", {class: "cursor", visibility: "hidden"});
  layers.svg.append(s("g", {transform: `translate(${map.left} 0)`}, layers.vehicle), layers.cursor);
  layers.svg.setAttribute("tabindex", 0);
  layers.svg.setAttribute("aria-describedby", "value");
  layers.key = h("div", {class: "keys-of-map"});
  $("map").replaceChildren(layers.svg, layers.key);
  layers.svg.addEventListener("pointermove", point);
  layers.svg.addEventListener("pointerdown", point);
  layers.svg.addEventListener("pointerleave", () => mark(null));
  layers.svg.addEventListener("keydown", keyed);
  setView(view);
  return layers.svg;
}

export function drawViews(place) {
  place.replaceChildren(...VIEWS.map(([name, text]) => h("button", {
    role: "radio", "data-view": name, "aria-checked": name === view, tabindex: name === view ? 0 : -1,
    onclick: () => setView(name),
    onkeydown: event => {
      const turn = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
      if (!turn) return;
      event.preventDefault();
      const at = VIEWS.findIndex(each => each[0] === name);
      setView(VIEWS[(at + turn + VIEWS.length) % VIEWS.length][0]);
      place.querySelector("[aria-checked=true]").focus();
    },
  }, text)));
}

export const viewOf = () => view;

export function setView(name) {
  view = name;
  onView?.(name);
  for (const each of document.querySelectorAll("[data-view]")) {
    each.setAttribute("aria-checked", each.dataset.view === name);
    each.tabIndex = each.dataset.view === name ? 0 : -1;
  }
  if (!layers) return;
  layers.svg.dataset.shows = name;
  drawKey();
}

function drawKey(most = plan?.most) {
  const key = layers.key;
  const swatch = (colour, text) => h("span", {}, h("i", {style: {background: colour}}), text);
  if (view === "given") key.replaceChildren(h("p", {class: "key"}, h("span", {}, "0"), h("span", {class: "ramp"}), h("span", {}, most ? `${most} ${map.unit} per cell` : "")));
  else if (view === "speed") key.replaceChildren(h("p", {class: "key"}, h("span", {}, "0"),
    h("span", {class: "ramp speed"}, ...map.speedColours.map(colour => h("b", {style: {background: colour}}))),
    h("span", {}, map.topSpeed), h("span", {}, "● start"), h("span", {}, "■ end"), plan?.transits ? h("span", {}, "dashed: nothing is given out") : null));
  else key.replaceChildren(h("p", {class: "key"}, ...map.regions.slice(0, 24).map(each => swatch(each.colour, each.name)),
    map.regions.length > 24 ? h("span", {}, `and ${map.regions.length - 24 + map.left_out} more`) : null,
    map.has_outside ? swatch("var(--none)", "no region") : null, map.forbidden ? swatch("var(--forbidden)", "must not be entered") : null));
}

// While a number is dragged: what the fluid gives, and how fast it is.
export function drawEstimate(pictures) {
  if (pictures.heat) layers.heat.setAttribute("href", pictures.heat);
  if (pictures.speed) layers.speed.setAttribute("href", pictures.speed);
  layers.svg.dataset.of = "estimate";
  if (pictures.most) drawKey(pictures.most);
}

export function drawPlan(route) {
  plan = route;
  fillPlan(layers, route);
  drawKey();
  stop();
  show($("drive"), true);
  show($("play"), !still.matches);
  $("time").max = route.places.x.length - 1;
  $("time").value = 0;
  layers.vehicle.setAttribute("visibility", "hidden");
  $("moment").textContent = `The drive takes ${route.duration}${route.isWhole ? "" : "; the horizon cuts it off before the end"}.`;
  mark(cursor);
}

// The drive -------------------------------------------------------------------------------------

function moment(at) {
  const places = plan.places;
  layers.vehicle.setAttribute("cx", places.x[at]);
  layers.vehicle.setAttribute("cy", places.y[at]);
  layers.vehicle.setAttribute("visibility", "visible");
  const given = (places.received[at] || []).map((value, region) => [map.names[region].name, value]).filter(each => each[1] > 0);
  const text = given.slice(0, 8).map(([name, value]) => `${name} ${number(value, 1)}`).join(", ");
  $("moment").textContent = `Step ${number(places.step[at] + 1)}: ${places.speed[at]}${text ? `; so far ${text}` : ""}`;
  $("time").setAttribute("aria-valuetext", `step ${places.step[at] + 1}`);
}

function stop() {
  cancelAnimationFrame(playing);
  playing = 0;
  $("play").textContent = "Play the drive";
}

// `shown` is called with the name of a view that is chosen.
export function setUpDrive(shown) {
  onView = shown;
  $("time").addEventListener("input", () => { stop(); moment(Number($("time").value)); });
  still.addEventListener("change", () => { stop(); show($("play"), !still.matches); });
  $("play").addEventListener("click", () => {
    if (playing) { stop(); return; }
    const last = plan.places.x.length - 1, seconds = Math.min(20, 4 + last / 100);
    let begin = Number($("time").value) >= last ? 0 : Number($("time").value), since = null;
    $("play").textContent = "Pause";
    const frame = now => {
      since ??= now;
      const at = Math.min(last, Math.floor(begin + (now - since) / 1000 / seconds * last));
      $("time").value = at;
      moment(at);
      if (at < last) playing = requestAnimationFrame(frame); else stop();
    };
    playing = requestAnimationFrame(frame);
  });
}

// Values under the pointer ------------------------------------------------------------------------

function point(event) {
  if (isDrawing()) return;
  const [across, y] = placeOf(layers.svg, event), x = across - map.left;
  const size = map.scale * map.blocks.step, column = Math.floor(x / size), row = Math.floor(y / size);
  const isInside = row >= 0 && column >= 0 && row < map.blocks.rows && column < map.blocks.columns;
  mark(isInside ? {row, column} : null);
}

function keyed(event) {
  if (isDrawing()) return;
  const turn = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
  if (event.key === "Escape") mark(null);
  if (!turn) return;
  event.preventDefault();
  const far = event.shiftKey ? 5 : 1, from = cursor || {row: Math.floor(map.blocks.rows / 2), column: Math.floor(map.blocks.columns / 2)};
  const clip = (value, count) => Math.max(0, Math.min(count - 1, value));
  mark(cursor ? {row: clip(from.row + far * turn[0], map.blocks.rows), column: clip(from.column + far * turn[1], map.blocks.columns)} : from);
}

function mark(place) {
  cursor = place;
  layers.cursor.setAttribute("visibility", place ? "visible" : "hidden");
  if (!place) { $("value").textContent = "Point at the map, or focus it and use the arrow keys, to see values."; return; }
  const size = map.scale * map.blocks.step;
  for (const [name, value] of Object.entries({x: map.left + place.column * size, y: place.row * size, width: size, height: size}))
    layers.cursor.setAttribute(name, value);
  const at = place.row * map.blocks.columns + place.column;
  const regions = map.blocks.kinds[map.blocks.kind[at]].map(each => map.names[each].name);
  const parts = [regions.join(", ") || "no region"];
  const given = plan?.given[at], speed = plan?.speeds[at];
  if (given !== null && given !== undefined) parts.push(`${number(given, 3)} ${map.unit} given out`);
  if (speed !== null && speed !== undefined) parts.push(`${number(speed)} cells per step`);
  if (plan && given === null) parts.push("not driven");
  $("value").textContent = `Row ${place.row * map.blocks.step + 1}, column ${place.column * map.blocks.step + 1}: ${parts.join("; ")}`;
}
