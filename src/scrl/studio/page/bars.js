// What each region receives, as bars with the bounds of the rules; drawn as in the report.

import {h} from "./dom.js";

const rows = new Map();

function made(bar) {
  const fill = h("div", {class: "fill"}), amount = h("div", {class: "amount"});
  const track = h("div", {class: "track"}, fill);
  const who = h("div", {class: "who"});
  return {row: h("div", {class: "region"}, who, h("div", {class: "bars"}, h("div", {class: "bar"}, track, amount))), who, track, fill, amount, bounds: ""};
}

function updated(parts, bar) {
  const bounds = JSON.stringify(bar.bounds);
  if (bounds !== parts.bounds || !parts.who.firstChild) {
    parts.bounds = bounds;
    parts.who.replaceChildren(h("i", {style: {background: bar.colour}}), bar.name,
      ...bar.bounds.slice(0, 4).map(each => h("small", {}, each.text)));
    parts.track.replaceChildren(parts.fill, ...bar.bounds.map(each => h("span", {
      class: `bound ${each.is_least ? "least" : "most"}${each.is_firm ? "" : " choice"}`,
      title: each.text, style: {left: `${each.at}%`}})));
  }
  parts.fill.style.left = `${bar.begin}%`;
  parts.fill.style.width = `${bar.width}%`;
  parts.fill.style.background = bar.colour;
  parts.amount.textContent = bar.received;
}

export function drawBars(place, bars) {
  const names = bars.map(bar => bar.name);
  for (const name of [...rows.keys()]) if (!names.includes(name)) rows.delete(name);
  for (const bar of bars) {
    if (!rows.has(bar.name)) rows.set(bar.name, made(bar));
    updated(rows.get(bar.name), bar);
  }
  const wanted = names.map(name => rows.get(name).row);
  if (wanted.some((row, at) => place.children[at] !== row) || place.children.length !== wanted.length)
    place.replaceChildren(...wanted);
}
