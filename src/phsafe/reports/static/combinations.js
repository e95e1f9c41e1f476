// Two groups side by side, and sums of regions. A cell is [estimate, lower, upper].
const MORE = "more than noise", MAYBE = "could be noise";

// Estimates that are fitted to a common total can err in opposite directions. Among n of them with equal noise, the
// correlation of two errors is never below -1/(n-1), so the variance of a difference is at most n/(n-1) times the sum.
function widening(first, second) {
  if (!data.interval) return 1;
  const sizes = [];
  const type = (region) => region.split(" ")[0];
  if (first.region !== second.region && type(first.region) === type(second.region)) {
    sizes.push(Object.keys(data.regions).filter((region) => type(region) === type(first.region)).length);
  }
  const together = data.together.find((codes) => codes.includes(first.group) && codes.includes(second.group));
  if (first.group !== second.group && together) sizes.push(together.length);
  return Math.sqrt(Math.max(1, ...sizes.map((n) => n / (n - 1))));
}

// The difference of two estimates from their intervals: distances to the bounds add up like standard errors.
function difference(first, second, widen, average) {
  const [a, lowA, highA] = first.map(value), [b, lowB, highB] = second.map(value);
  const cell = [a - b, a - b - widen * Math.hypot(a - lowA, highB - b), a - b + widen * Math.hypot(highA - a, b - lowB)];
  return average ? cell.map((v) => Number(v.toFixed(6))) : [cell[0], Math.floor(cell[1]), Math.ceil(cell[2])];
}

const total = (cells) => [0, 1, 2].map((i) => cells.reduce((sum, cell) => sum + value(cell[i]), 0));
const isMore = (cell) => cell[1] > 0 || cell[2] < 0;
const withMinus = (text) => text.replaceAll("-", "−");
const bracketed = (cell, average) => { const [e, range] = texts(cell, average); return `${e} (${range})`; };
const flagged = (cell, average) => `${isWide(cell) ? "△ " : ""}${bracketed(cell, average)}`;

function resultTable(caption, head, rows) {
  const labelled = (row) => row.map((text, i) => (i
    ? make("td", { class: "num", "data-label": head[i] }, text) : make("th", { scope: "row" }, text)));
  return make("table", { class: "result-table" }, make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...head.map((text, i) => make("th", { scope: "col", class: i ? "num" : null }, text)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...labelled(row)))));
}

// How `phsafe interval` names a cell.
const shortRegion = (region) => (region === "USA 1" ? "US" : data.tiles[region]?.[0] || region.split(" ")[1]);
const cellName = (table, region, group, line) => `${table}[${shortRegion(region)}, ${group}, ${line}]`;

// The command for the interval from the joint fit; tables of the independent method have none.
function showCommand(place, expression) {
  if (data.interval) $(place).textContent = `${data.interval} "${expression}"`;
}

function showComparison() {
  const name = chosen("compare-table"), table = data.tables[name];
  const [first, second] = ["first", "second"].map((who) => ({ region: chosen(who), group: chosen(`${who}-group`) }));
  // Only what differs needs a name in every heading.
  const [a, b] = [first, second].map((who) => (first.group === second.group ? data.regions[who.region]
    : first.region === second.region ? data.iterations[who.group] : groupName(who.region, who.group)));
  const same = first.group === second.group ? data.iterations[first.group] : first.region === second.region ? data.regions[first.region] : "";
  const [left, right] = [first, second].map((who) => cellsOf(name, who.region, who.group));
  const place = $("#compare-table"), result = $("#compare-result");
  $("#compare-how").hidden = !left || !right;
  place.replaceChildren();
  if (!left || !right) {
    const absent = left ? second : first;
    result.textContent = `${name} is not published for ${groupName(absent.region, absent.group)}.`;
    return;
  }
  const widen = widening(first, second);
  const cells = left.map((cell, i) => difference(cell, right[i], widen, table.average));
  const verdict = (cell) => (isMore(cell) ? MORE : MAYBE);
  const text = (cell) => withMinus(bracketed(cell, table.average)).replaceAll(" – ", " to ");
  const head = ["Line", a, b, "Difference (90 % interval)", "Verdict"];
  const heading = `${name} ${table.title}${same && `, ${same}`}`;
  place.append(resultTable(heading, head, table.lines.map(([, , label], i) => [label,
    flagged(left[i], table.average), flagged(right[i], table.average), text(cells[i]), verdict(cells[i])])));
  const [line, , label] = table.lines[0];
  result.textContent = `${label}: ${a} minus ${b} is ${text(cells[0])}: ${verdict(cells[0])}.`;
  const names = [first, second].map((who) => cellName(name, who.region, who.group, line));
  showCommand("#compare-command", names.join(" - "));
  const columns = ["TABLE", "CELL", "LABEL", "FIRST", "FIRST_ESTIMATE", "FIRST_LOWER_90", "FIRST_UPPER_90", "SECOND",
    "SECOND_ESTIMATE", "SECOND_LOWER_90", "SECOND_UPPER_90", "DIFFERENCE", "LOWER_90", "UPPER_90", "VERDICT"];
  const [nameA, nameB] = [first, second].map((who) => groupName(who.region, who.group));
  const rows = table.lines.map(([number, lineLabel], i) => [name, number, lineLabel, nameA, ...left[i].slice(0, 3), nameB,
    ...right[i].slice(0, 3), ...cells[i], verdict(cells[i])].map(String));
  const content = { columns, rows, isText: (i) => [0, 2, 3, 7, 14].includes(i) };
  const file = fileName(name, nameA, "minus", nameB), title = `${heading}: ${a} minus ${b}`;
  place.append(downloadBar("the comparison", { CSV: () => saveCsv(file, content), Excel: () => saveExcel(file, title, content) }));
}

function showSum() {
  const name = chosen("add-table"), group = chosen("add-group"), table = data.tables[name], regions = checked("add");
  const place = $("#add-table"), result = $("#add-result"), among = data.iterations[group];
  place.replaceChildren();
  const absent = regions.filter((region) => !cellsOf(name, region, group));
  $("#add").classList.toggle("unused", regions.length < 2);
  $("#add-how").hidden = regions.length < 2 || absent.length > 0;
  if (regions.length < 2 || absent.length) {
    result.textContent = absent.length ? `${name} is not published for ${among}.` : "Choose at least two regions.";
    return;
  }
  const names = regions.map((region) => data.regions[region]);
  const cells = table.lines.map((_, i) => total(regions.map((region) => cellsOf(name, region, group)[i])));
  const listed = `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
  const [line, , label] = table.lines[0];
  result.textContent = `${label} in ${listed} together: ${flagged(cells[0], false).replace("(", "(at least 90 % interval ")}.`;
  place.append(resultTable(`${name} ${table.title}: ${listed}: ${among}`, ["Line", "Sum", "At least 90 % interval"],
    table.lines.map(([, , full], i) => [full, flagged(cells[i], false).split(" (")[0], texts(cells[i], false)[1]])));
  showCommand("#add-command", regions.map((region) => cellName(name, region, group, line)).join(" + "));
  const columns = ["TABLE", "REGIONS", "ITERATION_CODE", "RACE_ETHNICITY", "CELL", "LABEL", "SUM", "LOWER_90", "UPPER_90"];
  const rows = table.lines.map(([number, lineLabel], i) => [name, names.join("; "), group, among, number, lineLabel, ...cells[i]].map(String));
  const content = { columns, rows, isText: (i) => [0, 1, 2, 3, 5].includes(i) };
  const file = fileName(name, regions.map(shortRegion).join("+"), group);
  place.append(downloadBar("the sum", { CSV: () => saveCsv(file, content), Excel: () => saveExcel(file, `${name} ${table.title}: ${listed}`, content) }));
}
