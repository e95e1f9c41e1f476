// Charts, and the tables of margins under Details. The server computes every number shown here.

import { bars, budgetPicture, errorPicture } from "./charts.js";
import { $, chip, el, heading, segmented, select, show } from "./dom.js";
import { baselineName, unit } from "./front.js";
import { choose, goTo, levelLabel, tabulationLabel } from "./grid.js";
import { pinId, store } from "./store.js";
import { mark } from "./words.js";

let start;
let method = "formula";

export function setUp(catalog) {
  start = catalog;
  const methods = [["formula", "1.645 σ"], ["exact", "exact"], ["joint", "after joint estimation"]];
  show($("#moe-kind"), segmented("moe-kind", methods, method, (value) => { method = value; if (store.numbers) matrix(); }, "How to compute the margin of error"), mark("formula"), mark("exact"), mark("joint"));
  show($("#table-choice"), select(start.tables.map((t) => [t.name, `${t.title} (${t.name})`]), store.focus.table, (v) => { store.focus.table = v; store.tell("focus"); }, "Table"));
}

export function render() {
  const { numbers } = store;
  show($("#spend"), bars(start, numbers, tabulationLabel));
  errors(numbers);
  budget(numbers);
  matrix();
  truncation(numbers);
  lines(numbers);
}

// Choose what the charts are about: a pinned group, or the field chosen under Details.
function about(numbers, of) {
  const pins = numbers.pins.filter((pin) => pin.published && (pin.sources || []).length);
  const options = [...pins.map((pin) => [pin.id, pin.label]), ["", `${tabulationLabel(of.tabulation)}, ${levelLabel(of.level)} (chosen in Details)`]];
  const chosen = store.focus.pin && pins.some((pin) => pin.id === pinId(store.focus.pin)) ? pinId(store.focus.pin) : "";
  return select(options, chosen, (id) => {
    const pin = pins.find((each) => each.id === id);
    if (!pin) { store.focus.pin = null; store.tell("focus"); return; }
    choose(...pin.sources[0], store.pins.find((each) => pinId(each) === id));
  }, "Group or table of the chart");
}

function errors(numbers) {
  const data = numbers.error_curve;
  const of = data || numbers.curve;
  show($("#errors"), of ? about(numbers, of) : null, data ? [el("p", { class: "muted" }, `${data.label}, about ${data.size.toLocaleString("en-US")} people`), errorPicture(data)]
    : el("p", { class: "muted" }, "This table counts households, so nothing is truncated: choose a table that counts people."));
}

function budget({ curve, rows }) {
  const row = rows[curve.tabulation][curve.level];
  show($("#curve"), el("p", { class: "muted" }, `${tabulationLabel(curve.tabulation)}, ${levelLabel(curve.level)}: one `, el("span", {}, "basis cell "), mark("cell")),
    budgetPicture(curve, row.change && row.change.budget.state !== "other" ? row.before : null, unit(), baselineName()));
}

function heat(moe, low, high) {
  const t = high > low ? (Math.log(moe) - Math.log(low)) / (Math.log(high) - Math.log(low)) : 0.5;
  return `color-mix(in srgb, var(--accent) ${(4 + 24 * t).toFixed(0)}%, transparent)`;
}

// A derived tabulation holds the people of a table of averages.
function derivedTitle(name) {
  const table = start.tables.find((each) => name.startsWith(`${each.name}_`));
  return table ? `${table.title}: people, ` : "";
}

export function matrix() {
  const { numbers, finished } = store;
  const joint = finished && finished.margins;
  const value = (name, level, row) => {
    if (method === "exact") return [row.moe_exact, row.moe_exact.toLocaleString("en-US"), null];
    if (method === "joint") return joint && joint[name] && joint[name][level] ? [joint[name][level].moe, joint[name][level].moe_text, joint[name][level].change] : [row.moe, "…", null];
    return [row.moe, row.moe_text, row.change && row.change.moe];
  };
  const all = Object.entries(numbers.rows).flatMap(([name, levels]) => Object.entries(levels).map(([level, row]) => value(name, level, row)[0])).filter((x) => x > 0);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const cell = (name, level, row, hot) => {
    if (!row) return el("td", { class: "muted" }, "–");
    const [number, text, change] = value(name, level, row);
    const chosen = hot && store.focus.tabulation === name && store.focus.level === level;
    const node = el("td", { class: `${hot ? "hot" : ""} ${chosen ? "chosen" : ""}`, "data-value": number, onclick: hot ? () => goTo(name, level) : null },
      el("span", { "data-moe": hot ? `${name} ${level}` : null, "data-value": number }, text), change && change.state !== "same" ? [" ", chip(change)] : null);
    if (number > 0) node.style.background = heat(number, low, high);
    return node;
  };
  const measured = start.tabulations.filter((t) => numbers.rows[t.name]).map((t) =>
    el("tr", {}, el("th", { scope: "row" }, tabulationLabel(t.name), " ", el("small", {}, t.name)), start.levels.map((level) => cell(t.name, level.key, numbers.rows[t.name][level.key], true))));
  const derived = method === "joint" ? [] : numbers.derived.map((d) =>
    el("tr", { class: "derived" }, el("th", { scope: "row" }, `${derivedTitle(d.name)}cell ${d.cell} `, el("small", {}, `${d.name}, derived from ${d.source}`)), start.levels.map((level) => cell(d.name, level.key, d.levels[level.key], false))));
  const waiting = method !== "joint" || joint ? null : el("p", { role: "status" }, numbers.finished === "unavailable" ? numbers.finished_note : "Joint estimation is running; you can keep working…");
  show($("#matrix"), waiting, el("table", { class: "plain", id: "moes" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "of each basis cell"), start.levels.map(head))), el("tbody", {}, measured, derived)));
}

const head = (level) => el("th", { scope: "col" }, heading(level.label));

function truncation({ truncation: rows }) {
  show($("#truncation"), el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, ["table", "τ", "left out", "at τ − 1", "at τ + 1", baselineName()].map((column) => el("th", { scope: "col" }, column)))),
    el("tbody", {}, rows.map((row) => {
      const near = (tau) => { const share = (start.truncation.shares[row.tabulation] || {})[String(tau)]; return share === undefined ? "–" : `${share.toFixed(share < 0.1 ? 3 : 2)} %`; };
      return el("tr", {}, el("th", { scope: "row" }, tabulationLabel(row.tabulation), " ", el("small", {}, row.tabulation)), el("td", {}, String(row.tau)), el("td", {}, el("strong", {}, row.text)), el("td", {}, near(row.tau - 1)), el("td", {}, near(row.tau + 1)),
        el("td", {}, row.before ? `${row.before.text} (τ ${row.before.tau})` : "–"));
    }))), el("p", {}, el("small", {}, `Source of the shares: ${start.truncation.source}. A larger τ drops fewer people but adds more noise.`)));
}

function lines({ table }) {
  const levels = start.levels.filter((level) => table.levels.includes(level.key));
  const average = table.lines.some((line) => line.per);
  const margin = (line, level) => [line.count[level].moe_text, line.per ? el("small", {}, `÷ ${line.per[level].moe_text}`) : null];
  show($("#lines"), el("table", { class: "plain" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, average ? "line: ± people ÷ ± households" : "line: ± count"), levels.map(head))),
    el("tbody", {}, table.lines.map((line) => {
      const label = el("th", { scope: "row", class: "wrap" }, `${line.number}  ${line.label}`);
      label.style.paddingLeft = `${6 + 14 * line.indent}px`;
      return el("tr", {}, label, levels.map((level) => el("td", { title: `exact ± ${line.count[level.key].moe_exact}` }, margin(line, level.key))));
    }))));
}
