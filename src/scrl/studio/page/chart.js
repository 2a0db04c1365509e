// Axes and curves.

import {h, s, number} from "./dom.js";

const HEIGHT = 150, LEFT = 58, TOP = 10, BOTTOM = 118, WIDTH = 420, RIGHT = WIDTH - 12;

export function ticks(low, high, count = 4) {
  const rough = (high - low) / count, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(each => each * size).find(each => each >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + 1e-9 * step; at += step) found.push(at);
  return found;
}

// One curve with its title; `points` are [x, y] with rising x.
export function chart(title, points, acrossText) {
  const known = points.filter(each => each[1] !== null), values = known.map(each => each[1]);
  if (known.length < 2) return h("figure", {}, h("figcaption", {}, title), h("p", {class: "small"}, "no points yet"));
  const low = known[0][0], high = known.at(-1)[0], room = .08 * (Math.max(...values) - Math.min(...values)) || .5;
  const least = Math.min(...values) - room, most = Math.max(...values) + room;
  const x = value => LEFT + (value - low) / (high - low || 1) * (RIGHT - LEFT), y = value => BOTTOM - (value - least) / (most - least) * (BOTTOM - TOP);
  const text = `${title}: from ${number(values[0])} to ${number(values.at(-1))} after ${number(high)} ${acrossText}.`;
  return h("figure", {}, h("figcaption", {}, title), s("svg", {class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": text},
    ...ticks(least, most, 3).flatMap(at => [s("line", {class: "axis", x1: LEFT, x2: RIGHT, y1: y(at), y2: y(at)}), s("text", {x: LEFT - 7, y: y(at) + 4, "text-anchor": "end"}, number(at, 3))]),
    ...ticks(low, high, 4).map(at => s("text", {x: x(at), y: BOTTOM + 16, "text-anchor": "middle"}, number(at))),
    s("path", {class: "curve", d: `M${known.map(each => `${x(each[0]).toFixed(1)} ${y(each[1]).toFixed(1)}`).join("L")}`, stroke: "var(--accent)"}),
    s("text", {x: (LEFT + RIGHT) / 2, y: HEIGHT - 3, "text-anchor": "middle"}, acrossText)));
}
