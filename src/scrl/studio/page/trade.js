// The trade-off of one number: the cost of the best plan against it, as points come in.

import {ticks} from "./chart.js";
import {h, s, $, show, number} from "./dom.js";

const HEIGHT = 210, LEFT = 52, TOP = 12, BOTTOM = 170;
let about = null;

export function tradeOf() { return about; }

export function openTrade(rule, start, value) {
  about = {rule, start, value};
  show($("trade"), true);
  $("trade").replaceChildren(head(), h("p", {class: "small"}, "computing …"));
  $("trade").scrollIntoView({block: "nearest"});
}

export function closeTrade() { about = null; show($("trade"), false); }

function head() {
  return h("header", {}, h("h3", {}, `What ${number(about.value)} in ${about.rule} costs`),
    h("button", {class: "quiet", "aria-label": "Close the trade-off", onclick: closeTrade}, "✕"));
}

export function drawTrade(data) {
  if (!about || data.rule !== about.rule || data.start !== about.start) return;
  if (data.error) { $("trade").replaceChildren(head(), h("p", {class: "small bad"}, data.error.split("\n")[0])); return; }
  const points = data.points.map(([value, found]) => [value, found === null ? null : -found]).sort((a, b) => a[0] - b[0]);
  const kept = points.filter(each => each[1] !== null), costs = kept.map(each => each[1]);
  if (!kept.length) {
    $("trade").replaceChildren(head(), h("p", {class: "small"}, data.done ? "The fluid keeps the rules at none of these values." : "computing …"));
    return;
  }
  // As wide as there is room, so that its text is as large as any other.
  const WIDTH = Math.max(280, Math.min(520, $("trade").clientWidth - 30)), RIGHT = WIDTH - 14;
  const low = points[0][0], high = points.at(-1)[0], room = 0.08 * (Math.max(...costs) - Math.min(...costs)) || 0.5;
  const least = Math.min(...costs) - room, most = Math.max(...costs) + room;
  const x = value => LEFT + (value - low) / (high - low || 1) * (RIGHT - LEFT);
  const y = cost => BOTTOM - (cost - least) / (most - least) * (BOTTOM - TOP);
  let line = "", isOpen = false;
  for (const [value, cost] of points) {
    if (cost !== null) line += `${isOpen ? "L" : "M"}${x(value).toFixed(1)} ${y(cost).toFixed(1)}`;
    isOpen = cost !== null;
  }
  const here = points.find(each => each[0] === about.value);
  const text = Math.max(...costs) - Math.min(...costs) < 5e-4 ? `The cost is ${number(costs[0], 3)} at all values from ${number(kept[0][0])} to ${number(kept.at(-1)[0])}.`
    : `The cost is ${here?.[1] != null ? number(here[1], 3) : "not known"} at ${number(about.value)}; it goes from ${number(kept[0][1], 3)} at ${number(kept[0][0])} to ${number(kept.at(-1)[1], 3)} at ${number(kept.at(-1)[0])}.`;
  $("trade").replaceChildren(head(),
    s("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": text},
      ...ticks(least, most).flatMap(at => [s("line", {class: "axis", x1: LEFT, x2: RIGHT, y1: y(at), y2: y(at)}), s("text", {x: LEFT - 7, y: y(at) + 4, "text-anchor": "end"}, number(at, 3))]),
      ...ticks(low, high, 5).map(at => s("text", {x: x(at), y: BOTTOM + 17, "text-anchor": "middle"}, number(at))),
      ...points.filter(each => each[1] === null).map(each => s("line", {class: "impossible", x1: x(each[0]), x2: x(each[0]), y1: TOP, y2: BOTTOM})),
      s("line", {class: "level", x1: x(about.value), x2: x(about.value), y1: TOP, y2: BOTTOM}),
      s("path", {class: "curve", d: line, stroke: "var(--accent)"}),
      ...kept.map(each => s("circle", {cx: x(each[0]), cy: y(each[1]), r: each[0] === about.value ? 5 : 2.4, fill: "var(--accent)"})),
      s("text", {x: (LEFT + RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle"}, "the number; dotted: as written")),
    h("p", {class: "small"}, `${text} This is the fluid estimate.${points.length > kept.length ? " Red: the fluid cannot keep the rules there." : ""}${data.done ? "" : " More points are being computed."}`),
    h("details", {}, h("summary", {}, "Numbers"), h("div", {class: "scroll"}, h("table", {},
      h("thead", {}, h("tr", {}, h("th", {scope: "col"}, "number"), h("th", {scope: "col"}, "cost"))),
      h("tbody", {}, ...points.map(each => h("tr", {}, h("th", {scope: "row"}, number(each[0])), h("td", {}, each[1] === null ? "none" : number(each[1], 3)))))))));
}
