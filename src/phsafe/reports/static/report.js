"use strict";
// Switches the tables and the map to other groups, using the data embedded in the page. Everything is written as text;
// nothing is ever parsed as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (query, root = document) => root.querySelector(query);
  const $$ = (query, root = document) => [...root.querySelectorAll(query)];
  const NOTHING = "–", SHADES = 5, WIDTH = 100;

  // Integers too large for JavaScript are stored as text.
  const value = (v) => (typeof v === "string" ? Number(v.replaceAll(",", "")) : v);
  const decimals = (v) => (String(v).split(".")[1] || "").length;
  const digits = (cell) => Math.max(2, ...cell.map(decimals));
  const number = (v, places) =>
    typeof v === "string" ? v : v.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
  const isWide = (cell) => value(cell[2]) - value(cell[1]) > value(cell[0]);

  function whisker(svg, cell, bottom, top) {
    const at = (v) => ((value(v) - bottom) / (top - bottom || 1)) * WIDTH;
    const [track, range, point] = svg.children;
    const [x, low, high] = cell ? cell.map(at) : [0, 0, 0];
    track.setAttribute("width", (bottom ? WIDTH : x).toFixed(2));
    range.setAttribute("x", low.toFixed(2));
    range.setAttribute("width", Math.max(high - low, 0.6).toFixed(2));
    point.setAttribute("x", (x - 0.8).toFixed(2));
  }

  function fillRow(row, cell, average, bottom, top) {
    const places = cell && average ? digits(cell) : 0;
    const [estimate, interval, chart] = row.querySelectorAll("td");
    const wide = Boolean(cell) && isWide(cell);
    row.classList.toggle("wide", wide);
    $(".mark", estimate).hidden = !wide;
    estimate.lastElementChild.textContent = cell ? number(cell[0], places) : NOTHING;
    interval.textContent = cell ? `${number(cell[1], places)} – ${number(cell[2], places)}` : NOTHING;
    whisker($("svg", chart), cell, bottom, top);
  }

  const choose = $("#choose");
  function showTables() {
    const { region, iteration } = choose.elements;
    $("#where").textContent = `${data.regions[region.value]}: ${data.iterations[iteration.value]}`;
    for (const card of $$("[data-table]")) {
      const table = data.tables[card.dataset.table];
      const cells = table.groups[`${region.value} ${iteration.value}`];
      $(".absent", card).hidden = Boolean(cells);
      $("table", card).hidden = !cells;
      if (!cells) continue;
      const top = Math.max(...cells.filter(Boolean).map((cell) => value(cell[2])));
      $$("tbody tr", card).forEach((row, i) => fillRow(row, cells[i], table.average, 0, top));
    }
  }

  function short(v, average) {
    const n = value(v);
    const halfUp = (x, places) => number(Math.floor(x * 10 ** places + 0.5) / 10 ** places, places);
    if (average) return halfUp(n, 2);
    for (const [unit, letter] of [[1e6, "M"], [1e3, "k"]]) {
      if (n >= unit) return halfUp(n / unit, n / unit < 10 ? 1 : 0) + letter;
    }
    return halfUp(n, 0);
  }

  const chooseMap = $("#choose-map");
  function showMap() {
    const { measure, iteration } = chooseMap.elements;
    const [name, line] = measure.value.split(" ");
    const table = data.tables[name], at = table.lines.indexOf(Number(line));
    const cell = (region) => (table.groups[`${region} ${iteration.value}`] || [])[at];
    const rows = $$("#map .list tbody tr");
    const cells = rows.map((row) => cell(row.dataset.region)).filter(Boolean);
    const estimates = cells.map((c) => value(c[0])).sort((a, b) => a - b);
    const low = Math.min(...cells.map((c) => value(c[1]))), high = Math.max(...cells.map((c) => value(c[2])));
    $("#map-where").textContent = `${measure.selectedOptions[0].textContent} · ${data.iterations[iteration.value]}`;
    $("#map-scale").textContent = cells.length
      ? `Scale of the bars: ${short(low, table.average)} to ${short(high, table.average)}.`
      : `${name} is not published by state for this group.`;
    for (const tile of $$(".tiles a")) {
      const region = tile.dataset.region, c = cell(region), code = region.split(" ")[1];
      const shade = c ? `q${Math.floor((estimates.filter((e) => e < value(c[0])).length * SHADES) / estimates.length)}` : "none";
      tile.parentElement.className = `t${code} ${shade}${c && isWide(c) ? " wide" : ""}`;
      $(".value", tile).textContent = c ? short(c[0], table.average) : NOTHING;
      tile.title = `${data.regions[region]}: ${c ? number(c[0], table.average ? digits(c) : 0) : NOTHING}`;
      whisker($("svg", tile), c, low, high);
    }
    for (const row of rows) fillRow(row, cell(row.dataset.region), table.average, low, high);
  }

  choose.hidden = false;
  choose.addEventListener("change", showTables);
  choose.addEventListener("submit", (event) => event.preventDefault());
  showTables();
  if (chooseMap) {
    chooseMap.hidden = false;
    chooseMap.addEventListener("change", showMap);
    chooseMap.addEventListener("submit", (event) => event.preventDefault());
    for (const tile of $$(".tiles a")) {
      tile.addEventListener("click", () => {
        choose.elements.region.value = tile.dataset.region;
        choose.elements.iteration.value = chooseMap.elements.iteration.value;
        showTables();
      });
    }
    showMap();
  }

  const theme = $("#theme"), root = document.documentElement;
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // Highlight the section in view in the navigation bar.
  const links = new Map($$("nav a").map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const section of $$("main > section")) seen.observe(section);
})();
