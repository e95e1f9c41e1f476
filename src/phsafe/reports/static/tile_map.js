// A map with one tile for each state. The colour is the estimate, in classes with about the same number of states.
const SHADES = 5, TILE_COLUMNS = 11;

// The class of each row that has one, and the smallest and largest estimate of each class.
function shades(mapped) {
  const rows = mapped.filter((r) => !isWide(r.cell));
  const estimates = rows.map((r) => value(r.cell[0])).sort((a, b) => a - b);
  const shade = (cell) => Math.floor((estimates.filter((e) => e < value(cell[0])).length * SHADES) / estimates.length);
  const classes = Array.from({ length: SHADES }, (_, i) => rows.filter((r) => shade(r.cell) === i).map((r) => value(r.cell[0])));
  return { shade, classes: classes.map((found) => (found.length ? [Math.min(...found), Math.max(...found)] : null)) };
}

// The estimate as a tile shows it, which has room for seven characters.
function tileValue(cell, average) {
  const text = average ? roundedTexts(cell, true)[0] : short(cell[0], false);
  return text.length > 7 ? number(value(cell[0]), 5) : text;
}

function tile({ name, cell, key }, size, average, shade, low, high, narrow) {
  const region = key.split(" ").slice(0, 2).join(" "), [letters, column, row] = data.tiles[region];
  const x = (column - 1) * size, y = (row - 1) * size, side = size - (narrow ? 2 : 5);
  const at = (v) => x + 7 + ((value(v) - low) / (high - low || 1)) * (side - 14), foot = y + side - 11;
  const detail = narrow ? [] : [
    words(x + 7, y + 38, tileValue(cell, average), { class: "tile-value" }),
    draw("line", { x1: x + 7, x2: x + side - 7, y1: foot, y2: foot, class: "tile-track" }),
    draw("line", { x1: at(cell[1]), x2: Math.max(at(cell[2]), at(cell[1]) + 1), y1: foot, y2: foot, class: "tile-range" }),
    draw("circle", { cx: at(cell[0]), cy: foot, r: 3, class: "tile-dot" })];
  const label = `${name}: ${fullTexts(cell, average).join(", 90 % interval ")}`;
  const link = draw("a", { href: `#tables&region=${region.replace(" ", "+")}`, "aria-label": label, "data-region": region }, draw("title", {}, label),
    draw("rect", { x, y, width: side, height: side, rx: narrow ? 3 : 7, class: isWide(cell) ? "hatched" : `q${shade(cell)}` }),
    narrow ? words(x + side / 2, y + side / 2 + 4, letters, { class: "tile-code tick" }) : words(x + 7, y + 18, letters, { class: "tile-code" }), ...detail);
  return link;
}

function hatching() {
  return draw("defs", {}, draw("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    draw("rect", { width: 6, height: 6, class: "hatch-ground" }), draw("rect", { width: 1.4, height: 6, class: "hatch-line" })));
}

// What the colours mean: a swatch and the range of each class, and the hatching.
function legend(classes, average, y, narrow, low, high) {
  const entries = classes.map((range, i) => [`q${i}`, range && `${short(range[0], average)} to ${short(range[1], average)}`]);
  entries.push(["hatched", data.flag]);
  const shown = entries.filter(([, text]) => text), wide = narrow ? 180 : 138;
  const parts = [words(0, y, "Colour: the estimate; each class has about the same number of states.")];
  shown.forEach(([kind, text], i) => {
    const last = i === shown.length - 1, below = last ? Math.ceil(i / 2) : Math.floor(i / 2);
    const x = narrow ? (last ? 0 : (i % 2) * wide) : i * wide, row = y + 12 + (narrow ? below * 20 : 0);
    parts.push(draw("rect", { x, y: row, width: 14, height: 14, rx: 3, class: kind }), words(x + 20, row + 11, text));
  });
  const foot = y + 12 + (narrow ? (Math.ceil((shown.length - 1) / 2) + 1) * 20 : 20) + 16;
  if (!narrow) parts.push(words(0, foot, `Bar in each tile: the 90 % interval, on a scale from ${short(low, average)} to ${short(high, average)}.`));
  return { parts, height: foot + 8 };
}

function tileMap(rows, average, label, group) {
  const narrow = isNarrow.matches, size = narrow ? 33 : 84, mapped = rows.filter((r) => data.tiles[r.key.split(" ").slice(0, 2).join(" ")]);
  const { shade, classes } = shades(mapped);
  const low = Math.min(...mapped.map((r) => value(r.cell[1]))), high = Math.max(...mapped.map((r) => value(r.cell[2])));
  const tiles = mapped.map((r) => tile(r, size, average, shade, low, high, narrow));
  for (const link of tiles) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      choose("tables", { region: link.dataset.region, group });
      $("#tables").scrollIntoView();
    });
  }
  const { parts, height } = legend(classes, average, 8 * size + 18, narrow, low, high);
  return draw("svg", { viewBox: `0 0 ${TILE_COLUMNS * size} ${height}`, class: "chart-svg map-svg", role: "group", "aria-label": label }, hatching(), ...tiles, ...parts);
}
