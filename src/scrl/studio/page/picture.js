// One map with a plan as SVG: regions, what is given where, and the route by speed.

import {s} from "./dom.js";

let count = 0;

// The layers of a picture; `fillPlan` fills them, and `svg` is their drawing.
export function picture(map) {
  const id = count += 1;
  const place = `translate(${map.left} 0)`, grid = `${place} scale(${map.scale_x} ${map.scale_y})`;
  const box = {x: map.left, y: 0, width: map.width, height: map.height}, evenodd = {"fill-rule": "evenodd"};
  const image = () => s("image", {class: "pixels", preserveAspectRatio: "none", ...box});
  const layers = {
    map, heat: image(), speed: image(), lines: s("g", {transform: place, fill: "none", "stroke-linejoin": "round"}),
    marks: s("g", {transform: place, stroke: "var(--paper)", "stroke-width": 1.5}),
    title: s("title", {id: `map-${id}-t`}, "The map"), text: s("desc", {id: `map-${id}-d`}),
  };
  layers.svg = s("svg", {class: "map", viewBox: `0 0 360 ${map.height.toFixed(1)}`, role: "img", "aria-labelledby": `map-${id}-t map-${id}-d`},
    layers.title, layers.text,
    s("mask", {id: `heat-${id}`, maskUnits: "userSpaceOnUse", ...box}, layers.heat),
    s("g", {transform: grid}, s("path", {class: "ground", d: map.field, ...evenodd}),
      s("g", {class: "fills"}, ...map.regions.map(each => s("path", {d: each.d, fill: each.colour, "fill-opacity": .86, ...evenodd})))),
    s("g", {class: "heat"}, s("rect", {...box, fill: "var(--heat)", mask: `url(#heat-${id})`})),
    s("g", {class: "routes"}, layers.speed, layers.lines),
    s("g", {transform: grid}, ...(map.forbidden ? [s("path", {d: map.forbidden, fill: "var(--forbidden)", ...evenodd})] : []),
      ...map.regions.map(each => s("path", {class: "edge", d: each.d}))),
    s("g", {class: "names"}, ...map.regions.filter(each => each.label).map(each => s("text", {class: "name", x: map.left + each.label[0], y: each.label[1], "font-size": each.label[3]}, each.label[2]))),
    layers.marks);
  layers.text.textContent = `${map.rows} by ${map.columns} cells with the regions ${map.names.slice(0, 30).map(each => each.name).join(", ")}.`;
  return layers;
}

export function fillPlan(layers, route) {
  layers.svg.dataset.of = "plan";
  layers.heat.setAttribute("href", route.heat);
  if (route.picture) layers.speed.setAttribute("href", route.picture); else layers.speed.removeAttribute("href");
  layers.lines.setAttribute("stroke-width", route.width);
  layers.lines.replaceChildren(...route.lines.map(line => s("path", {d: line.d, stroke: line.colour, "stroke-linecap": "square"})));
  layers.marks.replaceChildren(
    ...(route.transits ? [s("path", {class: "transit", d: route.transits})] : []),
    ...(route.arrows ? [s("path", {class: "arrow", d: route.arrows})] : []),
    s("circle", {cx: route.start[0], cy: route.start[1], r: 5.5, fill: "var(--ink)"}),
    s("rect", {x: route.end[0] - 5, y: route.end[1] - 5, width: 10, height: 10, rx: 1.5, fill: "var(--ink)"}));
}

// Where an event is on the drawing.
export function placeOf(svg, event) {
  const found = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return [found.x, found.y];
}
