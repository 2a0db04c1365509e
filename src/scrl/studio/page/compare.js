// Two plans side by side, with a table of what differs.

import {h, $, show} from "./dom.js";
import {fillPlan, picture} from "./picture.js";

let pair = null;

export function drawComparison(found, view) {
  pair = found.first ? found : null;
  show($("compared"), Boolean(pair));
  show($("drop-plan"), Boolean(pair));
  if (!pair) { $("compared").replaceChildren(); return; }
  const both = [pair.first, pair.second];
  $("compared").replaceChildren(
    h("div", {class: "pair"}, ...both.map(side)),
    h("div", {class: "scroll"}, ...Object.entries(pair.tables).map(([title, rows]) => table(title, rows, both))));
  setComparedView(view);
}

// The pictures show what the map shows.
export function setComparedView(view) {
  for (const each of $("compared").querySelectorAll("svg.map")) each.dataset.shows = view;
}

function side(shown) {
  const layers = picture(shown.map);
  fillPlan(layers, shown.route);
  layers.title.textContent = `The map of ${shown.label}`;
  return h("figure", {}, h("figcaption", {}, h("b", {}, shown.label), ` ${shown.verdict}`), layers.svg);
}

function table(title, rows, [first, second]) {
  const head = text => h("th", {scope: "col"}, text);
  const isWords = rows.every(row => /[a-z]/.test(row.first));
  return h("table", {class: `differences${isWords ? " words" : ""}`}, h("caption", {}, title),
    h("thead", {}, h("tr", {}, head(""), head(first.label), head(second.label), head("difference"))),
    h("tbody", {}, ...rows.map(row => h("tr", {class: row.first === row.second ? "same" : ""}, h("th", {scope: "row"}, row.name),
      ...[row.first, row.second, row.difference].map(text => h("td", {class: /[a-z]/.test(text) ? "word" : ""}, text.replace(/^-/, "\u2212")))))));
}
