// The settings of the problem file as forms: a field with its sentence, unit and range for each.

import {h, $, number} from "./dom.js";

const TITLES = {problem: "Problem and confidence", world: "Route and units", vehicle: "Vehicle, flow and dose", wind: "Wind"};

// `send(table, key, value)` returns whether the value was taken.
export function drawForms(settings, send) {
  if ($("forms").contains(document.activeElement)) return;
  const tables = new Map();
  for (const each of settings) tables.set(each.table, [...(tables.get(each.table) || []), each]);
  $("forms").replaceChildren(...[...tables].map(([table, fields]) =>
    h("fieldset", {}, h("legend", {}, TITLES[table] || table), ...fields.map(each => field(each, send)))));
}

function field(each, send) {
  const id = `set-${each.table}-${each.key}`, isText = each.type.startsWith("str"), isPair = each.type.startsWith("tuple");
  const value = each.value ?? each.default;
  const range = each.choices.length ? each.choices.join(", ") : isText ? "text" : isPair ? "least and most, or nothing" : each.range;
  const about = h("small", {id: `${id}-d`}, `${each.sentence.replaceAll("`", "")} ${each.unit ? `[${each.unit}] ` : ""}(${range.replace(/[\d.]+e[+-]\d+/g, found => number(Number(found), 12))})`);
  const inputs = isPair ? [0, 1].map(at => box(at === 0 ? id : `${id}-2`, "number", value?.[at], {placeholder: at === 0 ? "least" : "most", "aria-label": `${each.key}, ${at === 0 ? "least" : "most"}`}))
    : each.choices.length ? [h("select", {id}, ...(Array.isArray(value) ? [h("option", {selected: true, disabled: true}, value.join(", "))] : []), ...each.choices.map(choice => h("option", {selected: choice === value}, choice)))]
    : [box(id, isText ? "text" : "number", value, {step: each.type.startsWith("int") ? 1 : "any"})];
  for (const input of inputs) {
    input.setAttribute("aria-describedby", about.id);
    input.addEventListener("change", async () => {
      const typed = inputs.map(one => one.value.trim() === "" ? null : isText || each.choices.length ? one.value.trim() : Number(one.value));
      if (isPair && typed.filter(one => one === null).length === 1) return;  // the other one is still to come
      const isTaken = await send(each.table, each.key, isPair ? (typed[0] === null ? null : typed) : typed[0]);
      for (const one of inputs) one.setAttribute("aria-invalid", !isTaken);
    });
  }
  return h("div", {class: `field${isPair ? " two" : ""}`}, h("label", {for: id}, each.key.replaceAll("_", " ")), h("span", {}, ...inputs), about);
}

function box(id, type, value, more) { return h("input", {id, type, step: "any", value: value ?? "", placeholder: "not set", ...more}); }
