// Elements are made one by one and text is set as text, so that no name is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("aria-") && typeof value === "boolean") { element.setAttribute(name, String(value)); continue; }
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter(each => each !== null && each !== undefined));
  return element;
}

export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export const $ = id => document.getElementById(id);

export function show(element, isShown) { element.hidden = !isShown; }

// A number with a minus sign and at most so many decimals.
export function number(value, decimals = 2) {
  const text = value.toLocaleString("en", {maximumFractionDigits: decimals});
  return text.replace(/^-/, "\u2212");
}
