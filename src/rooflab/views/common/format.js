// Numbers as people read them, the same as `rooflab.units` writes: "3.35 TB/s", "92.0 ns"; a dash where unknown.
"use strict";
const UNKNOWN = "–";
const FORMATS = []; // by digits after the point: making one takes longer than all else about a number

function significant(value, digits) {
  const size = (x) => Math.floor(Math.log10(Math.abs(x)));
  let places = value ? Math.max(0, digits - 1 - size(value)) : 0;
  const rounded = Number(value.toFixed(Math.min(places, 100)));
  if (rounded && size(rounded) > size(value)) places = Math.max(0, places - 1);
  if (!FORMATS[places]) FORMATS[places] = new Intl.NumberFormat("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
  return FORMATS[places].format(rounded);
}

function si(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  if (value === 0 || !Number.isFinite(value)) return `${value} ${unit}`;
  const large = [["", 1], ["k", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12], ["P", 1e15], ["E", 1e18]];
  const small = [["n", 1e-9], ["µ", 1e-6], ["m", 1e-3]];
  let [prefix, scale] = ["", 1];
  for (const [name, size] of unit === "s" ? [...small, ...large] : large) {
    if (Math.abs(value) >= size * (1 - 0.5e-3) || (unit === "s" && name === "n")) [prefix, scale] = [name, size];
  }
  if (unit === "s" && scale >= 1e3) [prefix, scale] = ["", 1];
  return `${significant(value / scale, 3)} ${prefix}${unit}`;
}

function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return UNKNOWN;
  for (const [name, size] of [["years", 365.25 * 86400], ["days", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size || (name === "years" && seconds >= size)) return `${significant(seconds / size, 3)} ${name}`;
  }
  return si(seconds, "s");
}

function percent(share) {
  if (share === null || !Number.isFinite(share)) return UNKNOWN;
  return share > 0 && share < 0.0005 ? "< 0.1 %" : `${(share * 100).toFixed(1)} %`;
}

// "1.70 ×", "23 ×"
function ratio(value) {
  if (value === null || !Number.isFinite(value)) return UNKNOWN;
  return value < 9.995 ? `${value.toFixed(2)} ×` : `${Math.round(value).toLocaleString("en-US")} ×`;
}

function intensity(value) {
  if (value === null || !Number.isFinite(value)) return UNKNOWN;
  if (value >= 999.5) return Math.round(value).toLocaleString("en-US");
  return value === 0 ? "0" : String(Number(value.toPrecision(3)));
}

function boundText(bound, binds) {
  return bound ? `${bound.replace("-bound", "")}: ${binds}` : UNKNOWN;
}

// A number and its unit stay on one line.
function unbroken(text) {
  const unit = "%|[nµmkMGTPE]?(?:s|B|OP|MAC|FLOP|B/s|FLOP/s|OP/s)|[KMGT]iB|min|h|days|years|×";
  return text.replace(new RegExp(`(\\d) (?=(?:${unit})(?:[\\s.,;:)]|$))`, "g"), "$1\u00a0");
}

// A new element: `element("td", { class: "number" }, "text", other)`. Text is set as text, never as markup.
function element(name, attributes, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) if (value !== null) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

// `line` with what stands between backticks as code.
const coded = (line) => line.split(/`([^`\n]+)`/).map((part, at) => (at % 2 ? element("code", {}, part) : part));

// A name that may be broken after its dots and underscores, rather than in the middle of a word.
function breakable(name) {
  return name.split(/(?<=[._:])(?=[^._:])/).flatMap((part, number) => (number ? [document.createElement("wbr"), part] : [part]));
}
// Characters of its longest piece, no more than a column has room for.
const longest = (name) => Math.min(22, Math.max(...name.split(/(?<=[._:])(?=[^._:])/).map((part) => part.length), 0));

function drawn(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
