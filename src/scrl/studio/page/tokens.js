// The text of a rule as pieces: names, numbers, words and signs.

const PIECE = /"(?:[^"\\\n]|\\.)*"|#[^\n]*|[^\W\d]\w*|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|\s+|<=|>=|==|->|./gsu;
export const WORDS = ["if", "then", "implies", "and", "or", "not", "within", "in", "on", "surely", "total", "average", "max", "min", "dose"];

const TOTALS = ["time", "distance", "used"].map(name => ({name, shown: name}));

export function tokens(text) {
  return [...text.matchAll(PIECE)].map(found => {
    const piece = found[0];
    let kind = "sign";
    if (piece.startsWith("#")) kind = "comment";
    else if (/^\s/.test(piece)) kind = "space";
    else if (/^[\d.]/.test(piece) && /\d/.test(piece)) kind = "number";
    else if (WORDS.includes(piece)) kind = "word";
    else if (/^["\p{L}_]/u.test(piece)) kind = "name";
    return {kind, piece, start: found.index};
  });
}

// The step by which a number is dragged: a hundredth of its size, as a power of ten.
export function stepOf(value) {
  const size = Math.abs(value);
  return size === 0 ? 1 : 10 ** (Math.floor(Math.log10(size)) - 2);
}

export function moved(value, steps, step) {
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return Math.max(0, Number((value + steps * step).toFixed(decimals)));
}

export function withNumber(text, start, value) {
  const found = tokens(text).find(each => each.kind === "number" && each.start === start);
  return found ? text.slice(0, start) + shown(value) + text.slice(start + found.piece.length) : text;
}

function shown(value) {
  const text = String(value);
  return /e/i.test(text) ? value.toFixed(12).replace(/\.?0+$/, "") : text;
}

// What a name that is being typed before the caret may become.
export function completions(text, caret, names) {
  const before = text.slice(0, caret);
  const found = /"((?:[^"\\\n]|\\.)*)$|([\p{L}_][\p{L}\p{N}_]*)$/u.exec(before);
  if (!found || (found[1] !== undefined && (before.slice(0, found.index).match(/"/g) || []).length % 2)) return null;
  const typed = (found[1] ?? found[2]).toLowerCase();
  if (!typed && found[1] === undefined) return null;
  const all = [...names, ...(found[1] === undefined ? TOTALS : []), ...(found[1] === undefined ? WORDS.map(word => ({name: word, shown: word})) : [])];
  const starting = all.filter(each => each.name.toLowerCase().startsWith(typed));
  const inside = all.filter(each => !starting.includes(each) && each.name.toLowerCase().includes(typed));
  const choices = [...starting, ...inside].filter(each => each.shown !== before.slice(found.index)).slice(0, 8);
  return choices.length ? {start: found.index, choices} : null;
}
