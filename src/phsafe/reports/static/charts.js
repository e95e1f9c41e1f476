// Ranked dot plots with intervals. Rows are { name, cell, key }.
const isNarrow = matchMedia("(max-width: 640px)");

// About five round numbers that cover a range.
function ticks(low, high) {
  const rough = (high - low || 1) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9) + 1e-12; i += 1) found.push(Number((i * step).toPrecision(12)));
  return found;
}

const words = (x, y, content, attributes = {}) => draw("text", { x, y, ...attributes }, content);

function dotPlot(rows, average, label, reference) {
  const narrow = isNarrow.matches, width = narrow ? 360 : 1100, top = 34;
  const left = narrow ? 6 : 330, right = narrow ? width - 10 : width - 250;
  const low = average ? Math.min(...rows.map((r) => value(r.cell[1]))) : 0, high = Math.max(...rows.map((r) => value(r.cell[2])), low + 1e-9);
  const at = (v) => left + ((value(v) - low) / (high - low)) * (right - left);
  const shown = rows.map(({ name, cell }) => {
    const [estimate, range] = texts(cell, average), numbers = `${isWide(cell) ? "△ " : ""}${estimate} (${range})`;
    // On a phone the numbers are beside the name if there is room, otherwise below it.
    const second = narrow && name.length + numbers.length > 44 ? 14 : 0;
    return { name, cell, numbers, second, height: narrow ? 36 + second : 22 };
  });
  const bottom = top + shown.reduce((sum, r) => sum + r.height, 0), parts = [];
  const step = ticks(low, high), places = average ? Math.min(2, Math.max(...step.map(decimals))) : 0;
  for (const tick of step) {
    parts.push(draw("line", { x1: at(tick), x2: at(tick), y1: top - 4, y2: bottom, class: "grid" }),
      words(at(tick), top - 9, average ? number(tick, places) : short(tick, false), { class: "tick" }));
  }
  if (reference) parts.push(draw("line", { x1: at(reference.cell[0]), x2: at(reference.cell[0]), y1: top - 4, y2: bottom, class: "reference" }));
  let end = top;
  for (const { name, cell, numbers, second, height } of shown) {
    end += height;
    const y = end - (narrow ? 10 : 11), kind = isWide(cell) ? "plot wide" : "plot";
    parts.push(draw("g", { class: kind }, draw("title", {}, `${name}: ${fullTexts(cell, average).join(", 90 % interval ")}`),
      narrow ? words(left, y - 12 - second, name) : words(left - 10, y + 4, name, { class: "name" }),
      draw("line", { x1: at(cell[1]), x2: Math.max(at(cell[2]), at(cell[1]) + 1), y1: y, y2: y, class: "span" }),
      draw("circle", { cx: at(cell[0]), cy: y, r: 4, class: "dot" }),
      narrow ? words(width - 4, y - 12, numbers, { class: "name" }) : words(right + 10, y + 4, numbers)));
  }
  const key = draw("g", { class: "plot" }, draw("line", { x1: left, x2: left + 30, y1: bottom + 18, y2: bottom + 18, class: "span" }),
    draw("circle", { cx: left + 15, cy: bottom + 18, r: 4, class: "dot" }), words(left + 38, bottom + 22, "estimate and 90 % interval"));
  const note = narrow ? [left, bottom + 40] : [left + 250, bottom + 22];
  const wide = draw("g", { class: "plot wide" }, draw("circle", { cx: note[0] + 6, cy: note[1] - 4, r: 4, class: "dot" }),
    words(note[0] + 18, note[1], `△ ${data.flag}`));
  const line = reference && draw("g", {}, draw("line", { x1: left, x2: left + 30, y1: note[1] + 16, y2: note[1] + 16, class: "reference" }),
    words(left + 38, note[1] + 20, `${reference.name}: ${texts(reference.cell, average)[0]}`));
  return draw("svg", { viewBox: `0 0 ${width} ${note[1] + (reference ? 30 : 12)}`, class: "chart-svg", role: "img", "aria-label": label },
    ...parts, key, wide, line || draw("g"));
}

// A chart with its heading and download buttons in place of what the figure showed before.
function place(figure, heading, title, chart, name, line, keys) {
  const file = fileName(name, "line", line, heading), table = data.tables[name];
  figure.replaceChildren(make("figcaption", {}, heading), chart, downloadBar(title, {
    PNG: () => savePng(file, title, chart),
    SVG: () => saveSvg(file, title, chart),
    CSV: () => saveCsv(file, tableRows(name, keys, line)),
    Excel: () => saveExcel(file, `${name} ${table.title}`, tableRows(name, keys, line)),
  }));
}

function showCharts() {
  const [name, text] = chosen("figure").split(" "), line = Number(text), table = data.tables[name], i = lineAt(name, line);
  const group = chosen("map-group"), region = chosen("map-region");
  const title = `${name} ${table.title}: ${table.lines[i][2]}`;
  const row = (key, label) => ({ name: label, key, cell: (table.groups[key] || [])[i] });
  const ranked = (rows) => rows.filter((r) => r.cell).sort((a, b) => value(b.cell[0]) - value(a.cell[0]));
  const all = Object.entries(data.regions).map(([key, label]) => row(`${key} ${group}`, label));
  // Regions of one type only, the most common one: a nation beside its states would squeeze them.
  const type = (r) => r.key.split(" ")[0], count = (r) => all.filter((other) => other.cell && type(other) === type(r)).length;
  const main = all.filter((r) => r.cell).sort((a, b) => count(b) - count(a))[0];
  const regions = ranked(all.filter((r) => main && type(r) === type(main)));
  const groups = ranked(Object.entries(data.iterations).map(([code, label]) => row(`${region} ${code}`, label)));
  $("#map-where").textContent = title;
  const show = (figure, heading, rows, chart) => {
    if (!figure) return;
    if (rows.length) place(figure, heading, `${title}: ${heading}`, chart(`${title}: ${heading}`), name, line, rows.map((r) => r.key));
    else figure.replaceChildren(make("p", { class: "absent" }, `${name} is not published for ${data.iterations[group]}.`));
  };
  const nation = table.average ? all.find((r) => type(r) === "USA" && r.cell && type(main) !== "USA") : null;
  const who = data.iterations[group];
  show($("#map-tiles"), `Map, ${who}`, regions, (label) => tileMap(regions, table.average, label, group));
  show($("#map-regions"), `Regions, ${who}`, regions, (label) => dotPlot(regions, table.average, label, nation));
  show($("#map-groups"), `Races and ethnicities, ${data.regions[region]}`, groups, (label) => dotPlot(groups, table.average, label, null));
}
