// Number formats for display. phsafe.display.numbers formats the same way in Python; a test compares the two.
const NOTHING = "–";

// Integers too large for JavaScript are stored as text.
const value = (v) => (typeof v === "string" ? Number(v) : v);
const isWide = (cell) => value(cell[2]) - value(cell[1]) > value(cell[0]);

const decimals = (v) => (String(v).split(".")[1] || "").length;
const digits = (cell) => Math.max(2, ...cell.slice(0, 3).map(decimals));
const number = (v, places) =>
  (typeof v === "string" ? BigInt(v) : v).toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });

// The last decimal place that an interval supports: 2 rounds to hundreds, -1 to tenths.
function supportedPlace(cell, average) {
  const margin = (value(cell[2]) - value(cell[1])) / 2, most = average ? 0 : 15;
  let place = average ? -digits(cell) : 0;
  while (margin > 0 && place < most && 4 * 10 ** (place + 1) <= margin) place += 1;
  return place;
}

function fullTexts(cell, average) {
  const places = average ? digits(cell) : 0;
  const [estimate, lower, upper] = cell.slice(0, 3).map((v) => number(v, places));
  return [estimate, `${lower} – ${upper}`];
}

// The estimate is rounded to the nearest, the bounds outwards.
function roundedTexts(cell, average) {
  const place = supportedPlace(cell, average), SLACK = 1e-6;
  const scaled = cell.slice(0, 3).map(value).map((v) => (place >= 0 ? v / 10 ** place : v * 10 ** -place));
  const at = (whole) => number((place >= 0 ? whole * 10 ** place : whole / 10 ** -place) + 0, Math.max(0, -place));
  return [at(Math.floor(scaled[0] + 0.5)), `${at(Math.floor(scaled[1] + SLACK))} – ${at(Math.ceil(scaled[2] - SLACK))}`];
}

// The estimate and interval of a cell, with all digits if the reader wants them.
const texts = (cell, average) => (cell ? (allDigits() ? fullTexts : roundedTexts)(cell, average) : [NOTHING, NOTHING]);

// A number short enough for a tile, an axis or a legend.
function short(v, average) {
  const n = value(v), size = Math.abs(n);
  const halfUp = (x, places) => number(Math.floor(x * 10 ** places + 0.5) / 10 ** places, places);
  if (average) return halfUp(n, 2);
  for (const [unit, letter] of [[1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return halfUp(n / unit, size / unit < 10 ? 1 : 0) + letter;
  }
  return halfUp(n, 0);
}
