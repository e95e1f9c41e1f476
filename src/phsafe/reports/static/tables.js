// The tables of one group.
function whisker(svg, cell, top) {
  const [track, range, point] = svg.children;
  const [x, low, high] = cell ? cell.slice(0, 3).map((v) => (value(v) / (top || 1)) * 100) : [0, 0, 0];
  track.setAttribute("width", x.toFixed(2));
  range.setAttribute("x", low.toFixed(2));
  range.setAttribute("width", Math.max(high - low, 0.6).toFixed(2));
  point.setAttribute("x", (x - 0.4).toFixed(2));
}

function fillRow(row, cell, average, top) {
  const [estimate, interval, chart] = $$("td", row);
  const shown = texts(cell, average), full = cell ? fullTexts(cell, average) : shown;
  row.classList.toggle("wide", Boolean(cell) && isWide(cell));
  $(".mark", estimate).hidden = !cell || !isWide(cell);
  [estimate.lastElementChild, interval.lastElementChild].forEach((span, i) => {
    span.textContent = shown[i];
    span.title = full[i];
  });
  whisker($("svg", chart), cell, top);
}

function showTables() {
  const region = chosen("region"), group = chosen("group");
  $("#where").textContent = groupName(region, group);
  for (const card of $$("[data-table]")) {
    const name = card.dataset.table, table = data.tables[name], cells = cellsOf(name, region, group);
    card.hidden = Boolean(chosen("table")) && chosen("table") !== name;
    $(".absent", card).hidden = Boolean(cells);
    for (const part of $$("table, .downloads", card)) part.hidden = !cells;
    if (!cells) continue;
    const top = Math.max(...cells.filter(Boolean).map((cell) => value(cell[2])));
    $$("tbody tr", card).forEach((row, i) => fillRow(row, cells[i], table.average, top));
  }
}

function addTableDownloads() {
  for (const card of $$("[data-table]")) {
    const name = card.dataset.table;
    const keys = () => [`${chosen("region")} ${chosen("group")}`];
    const file = () => fileName(name, data.regions[chosen("region")], chosen("group"));
    card.append(downloadBar(name, {
      CSV: () => saveCsv(file(), tableRows(name, keys())),
      Excel: () => saveExcel(file(), `${name} ${data.tables[name].title}`, tableRows(name, keys())),
      "All regions and groups (CSV)": () => saveCsv(name, tableRows(name)),
    }));
  }
}
