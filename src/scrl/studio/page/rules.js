// The rules: text with numbers that can be dragged, checking while one types, and their outcome.

import {h, $, show, number} from "./dom.js";
import {completions, moved, stepOf, tokens, withNumber} from "./tokens.js";

const PIXELS_PER_STEP = 2, PAUSE_MS = 450;
const cards = new Map();
let on = null, rules = [], names = [], dragged = null;

// `handlers`: live(rules, event), commit(rules), check(rules), trade(rule, start, value).
export function setUpRules(handlers) {
  // Another edit may follow before this one is drawn.
  on = {...handlers, commit: found => { rules = found; return handlers.commit(found); }};
  $("add").addEventListener("click", add);
}

export function setNames(found) { names = found; }
export const isDragging = () => dragged !== null;

export function drawRules(found, checks) {
  rules = found.map(each => ({...each}));
  const kept = new Set(rules.map(each => each.name));
  for (const name of [...cards.keys()]) if (!kept.has(name)) cards.delete(name);
  rules.forEach((rule, at) => {
    if (!cards.has(rule.name)) cards.set(rule.name, made(rule.name));
    const card = cards.get(rule.name);
    card.toggle.checked = rule.on;
    card.element.classList.toggle("off", !rule.on);
    if (card.area.hidden && card.text !== rule.text) drawText(card, rule.text);
    drawCheck(card, checks?.[at]?.error);
    card.up.disabled = at === 0;
    card.down.disabled = at === rules.length - 1;
    card.element.setAttribute("aria-label", `Rule ${rule.name}`);
  });
  show($("no-rules"), !rules.length);
  const wanted = rules.map(each => cards.get(each.name).element), place = $("cards");
  if (wanted.length !== place.children.length || wanted.some((each, at) => place.children[at] !== each)) place.replaceChildren(...wanted);
}

const textOf = name => rules.find(each => each.name === name);
const withText = (name, text) => rules.map(each => each.name === name ? {...each, text} : each);

function button(text, label, onclick) { return h("button", {class: "quiet", "aria-label": label, title: label, onclick}, text); }

function made(name) {
  const card = {name, text: null};
  const place = () => rules.findIndex(each => each.name === name);
  const swap = turn => {
    const from = place(), list = [...rules];
    [list[from], list[from + turn]] = [list[from + turn], list[from]];
    on.commit(list);
  };
  card.toggle = h("input", {type: "checkbox", role: "switch", "aria-label": `Ask for ${name}`, onchange: () => on.commit(rules.map(each => each.name === name ? {...each, on: card.toggle.checked} : each))});
  card.title = h("input", {class: "rule-name", value: name, maxlength: 200, "aria-label": "Name of the rule", autocomplete: "off", spellcheck: "false", onchange: () => rename(card)});
  card.up = button("↑", `Move ${name} up`, () => swap(-1));
  card.down = button("↓", `Move ${name} down`, () => swap(1));
  card.margin = h("p", {class: "margin"});
  card.view = h("div", {class: "code"});
  card.area = h("textarea", {hidden: true, rows: 1, spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": `Text of ${name}`, "aria-autocomplete": "list", "aria-controls": `list-${name}`});
  card.list = h("ul", {class: "choices", role: "listbox", id: `list-${name}`, "aria-label": "Names", hidden: true});
  card.error = h("div", {class: "error", role: "alert", hidden: true});
  card.outcome = h("div", {class: "outcome"});
  card.element = h("article", {class: "rule"},
    h("header", {}, card.toggle, card.title, h("span", {class: "tools"},
      button("Write", `Write the text of ${name}`, () => write(card)), card.up, card.down,
      button("✕", `Delete ${name}`, () => on.commit(rules.filter(each => each.name !== name))))),
    h("div", {class: "text"}, card.view, card.area, card.list), card.error, card.margin, card.outcome);
  setUpWriting(card);
  card.view.addEventListener("click", event => { if (!event.target.closest(".number")) write(card); });
  return card;
}

function rename(card) {
  const name = card.title.value.trim();
  if (!name || (name !== card.name && rules.some(each => each.name === name))) { card.title.value = card.name; return; }
  on.commit(rules.map(each => each.name === card.name ? {...each, name} : each));
}

function add() {
  let count = rules.length + 1;
  while (rules.some(each => each.name === `rule-${count}`)) count += 1;
  const name = `rule-${count}`, text = names.length ? `${names[0].shown} >= 0` : "";
  on.commit([...rules, {name, text, on: true}]).then(() => cards.get(name) && write(cards.get(name)));
}

// Numbers -----------------------------------------------------------------------------------------

function drawText(card, text) {
  const hadFocus = card.view.contains(document.activeElement) ? document.activeElement.dataset.start : null;
  const pieces = tokens(text);
  const same = card.text !== null && pieces.length === card.view.children.length && pieces.every((each, at) => card.view.children[at].dataset.kind === each.kind);
  card.text = text;
  if (same) pieces.forEach((each, at) => fill(card.view.children[at], each, card));
  else card.view.replaceChildren(...pieces.map(each => fill(h("span", {class: each.kind, "data-kind": each.kind}), each, card)));
  if (hadFocus !== null && !card.view.contains(document.activeElement)) card.view.querySelector(`[data-start="${hadFocus}"]`)?.focus();
}

function fill(span, piece, card) {
  if (span.textContent !== piece.piece) span.textContent = piece.piece;
  if (piece.kind !== "number") return span;
  span.dataset.start = piece.start;
  const attributes = {role: "slider", tabindex: 0, "aria-valuenow": piece.piece, "aria-valuetext": piece.piece, "aria-valuemin": 0,
    "aria-label": `Number in ${card.name}`, "aria-orientation": "horizontal", title: "Drag, or use the arrow keys; Enter shows what it costs"};
  for (const [name, value] of Object.entries(attributes)) span.setAttribute(name, value);
  if (!span.onpointerdown) {
    span.onpointerdown = event => grab(event, span, card);
    span.onkeydown = event => keyed(event, span, card);
    span.onblur = () => settle(card);
  }
  return span;
}

function setNumber(card, span, value, event) {
  const text = withNumber(card.text, Number(span.dataset.start), value);
  if (text === card.text) return;
  drawText(card, text);
  card.isLive = true;
  on.live(withText(card.name, text), event);
}

function settle(card) {
  clearTimeout(card.timer);
  if (!card.isLive) return;
  card.isLive = false;
  on.commit(withText(card.name, card.text));
}

function grab(event, span, card) {
  if (event.button !== 0) return;
  event.preventDefault();
  span.focus();
  span.setPointerCapture(event.pointerId);
  const from = event.clientX, value = Number(span.textContent), step = stepOf(value), index = [...card.view.children].indexOf(span);
  let isMoved = false;
  dragged = card;
  document.documentElement.classList.add("dragging");
  const move = next => {
    const steps = Math.round((next.clientX - from) / PIXELS_PER_STEP) * (next.shiftKey ? 10 : 1);
    isMoved ||= Math.abs(next.clientX - from) > 2;
    if (isMoved) setNumber(card, card.view.children[index], moved(value, steps, step), next);
  };
  const end = () => {
    span.removeEventListener("pointermove", move);
    span.removeEventListener("pointerup", end);
    span.removeEventListener("pointercancel", end);
    document.documentElement.classList.remove("dragging");
    dragged = null;
    if (isMoved) settle(card); else on.trade(card.name, Number(span.dataset.start), value);
  };
  span.addEventListener("pointermove", move);
  span.addEventListener("pointerup", end);
  span.addEventListener("pointercancel", end);
}

function keyed(event, span, card) {
  const value = Number(span.textContent), step = stepOf(value);
  const steps = {ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 10, PageDown: -10}[event.key];
  if (event.key === "Enter" || event.key === " ") { event.preventDefault(); settle(card); on.trade(card.name, Number(span.dataset.start), value); }
  if (event.key === "F2") { event.preventDefault(); write(card); }
  if (!steps) return;
  event.preventDefault();
  setNumber(card, span, moved(value, steps * (event.shiftKey ? 10 : 1), step), event);
  clearTimeout(card.timer);
  card.timer = setTimeout(() => settle(card), PAUSE_MS);
}

// Writing -----------------------------------------------------------------------------------------

function write(card) {
  const rule = textOf(card.name);
  if (!rule || !card.area.hidden) return;
  card.area.value = rule.text;
  show(card.area, true);
  show(card.view, false);
  grow(card.area);
  card.area.focus();
  card.area.setSelectionRange(rule.text.length, rule.text.length);
}

function grow(area) { area.style.height = "auto"; area.style.height = `${area.scrollHeight + 2}px`; }

function stopWriting(card, isKept) {
  if (card.area.hidden) return;
  clearTimeout(card.timer);
  closeChoices(card);
  const text = card.area.value, rule = textOf(card.name);
  show(card.area, false);
  show(card.view, true);
  drawText(card, isKept || !rule ? text : rule.text);
  if (isKept && rule && text !== rule.text) on.commit(withText(card.name, text));
  else on.check(rules);
}

function setUpWriting(card) {
  const area = card.area;
  area.addEventListener("input", () => {
    grow(area);
    offer(card);
    clearTimeout(card.timer);
    card.timer = setTimeout(async () => {
      const list = withText(card.name, area.value), found = await on.check(list);
      const error = found?.[list.findIndex(each => each.name === card.name)]?.error;
      // What reads well is kept after a pause, so that no crash loses it.
      if (found && !error && !area.hidden && area.value !== textOf(card.name)?.text) card.timer = setTimeout(() => area.hidden || on.commit(withText(card.name, area.value)), 1000);
    }, 150);
  });
  area.addEventListener("keydown", event => {
    if (!card.list.hidden && choose(card, event)) { event.preventDefault(); return; }
    if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); stopWriting(card, false); card.view.querySelector(".number")?.focus(); }
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); stopWriting(card, true); card.view.querySelector(".number")?.focus(); }
  });
  area.addEventListener("blur", () => stopWriting(card, true));
}

function offer(card) {
  const found = completions(card.area.value, card.area.selectionStart, names);
  card.offered = found;
  card.chosen = 0;
  if (!found) { closeChoices(card); return; }
  card.list.replaceChildren(...found.choices.map((each, at) => h("li", {
    role: "option", id: `${card.list.id}-${at}`, "aria-selected": at === 0,
    onpointerdown: event => { event.preventDefault(); card.chosen = at; take(card); },
  }, each.shown)));
  card.area.setAttribute("aria-activedescendant", `${card.list.id}-0`);
  show(card.list, true);
}

function closeChoices(card) { show(card.list, false); card.area.removeAttribute("aria-activedescendant"); card.offered = null; }

function choose(card, event) {
  const count = card.offered.choices.length, turn = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (turn) {
    card.chosen = (card.chosen + turn + count) % count;
    [...card.list.children].forEach((each, at) => each.setAttribute("aria-selected", at === card.chosen));
    card.area.setAttribute("aria-activedescendant", `${card.list.id}-${card.chosen}`);
    return true;
  }
  if (event.key === "Escape") { closeChoices(card); event.stopPropagation(); return true; }
  if (event.key === "Tab" || event.key === "Enter") { take(card); return true; }
  return false;
}

function take(card) {
  const {start, choices} = card.offered, area = card.area, shown = choices[card.chosen].shown;
  area.setRangeText(shown, start, area.selectionStart, "end");
  closeChoices(card);
  area.dispatchEvent(new Event("input"));
  closeChoices(card);
}

export function drawChecks(checks) {
  for (const each of checks) if (cards.has(each.name)) drawCheck(cards.get(each.name), each.error);
}

function drawCheck(card, error) {
  show(card.error, Boolean(error));
  card.area.setAttribute("aria-invalid", Boolean(error));
  card.element.classList.toggle("wrong", Boolean(error));
  if (!error) return;
  const [first, ...place] = error.message.replace(/^rule '[^\n]*?', line/, "line").replace(/^rule '[^\n]*?': /, "").split("\n");
  card.error.replaceChildren(h("p", {}, first), ...(place.length ? [h("pre", {}, place.join("\n"))] : []));
}

// Outcomes ----------------------------------------------------------------------------------------

function drawMargin(card, margin, text) {
  const isKept = margin >= -1e-6;
  card.margin.className = `margin ${isKept ? "good" : "bad"}`;
  card.margin.textContent = isKept ? `kept, ${text ?? number(Math.max(0, margin))} to spare` : `broken by ${text ?? number(-margin)}`;
}

// While a number is dragged: margins and costs of the fluid estimate.
export function drawMargins(margins, costs) {
  for (const [name, card] of cards) {
    if (!(name in margins)) continue;
    drawMargin(card, margins[name]);
    card.costs?.replaceChildren(...costLines(costs[name]));
  }
}

function costLines(costs) {
  return (costs?.length ? costs : []).map(each => h("li", {}, each));
}

function said(part, depth = 0) {
  const roles = {if: ["if", "then"], any: null, all: null}[part.kind];
  return [h("span", {}, part.text), part.parts.length && depth < 4 ? h("ul", {}, ...part.parts.map((each, at) => h("li", {class: each.used ? "" : "unused"},
    roles ? h("span", {class: "role"}, roles[at] || "") : h("span", {class: `mark${each.held ? "" : " no"}`, role: "img", "aria-label": each.held ? "kept" : "broken"}), ...said(each, depth + 1)))) : null];
}

export function drawOutcomes(outcomes) {
  const found = new Map(outcomes.map(each => [each.name, each]));
  for (const [name, card] of cards) {
    const each = found.get(name);
    if (!each) { card.margin.textContent = ""; card.outcome.replaceChildren(); card.costs = null; continue; }
    drawMargin(card, each.satisfied ? Math.max(0, each.margin) : each.margin, each.satisfied ? each.marginText.replace("+", "") : each.marginText.replace("-", ""));
    card.costs = h("ul", {class: "costs"}, ...costLines(each.costs));
    card.outcome.replaceChildren(h("div", {class: "said"}, h("span", {class: `mark${each.satisfied ? "" : " no"}`, role: "img", "aria-label": each.satisfied ? "kept" : "broken"}), ...said(each.said)),
      ...(each.ways.length ? [h("table", {class: "ways"}, h("caption", {class: "hidden"}, `Ways to keep ${name}`), h("tbody", {}, ...each.ways.map(way => h("tr", {class: way.met ? "met" : ""},
        h("th", {scope: "row"}, h("code", {}, way.text)), h("td", {class: "word"}, `${way.met ? "met by this plan" : "not met"}; ${way.cost}`)))))] : []),
      card.costs);
  }
}
