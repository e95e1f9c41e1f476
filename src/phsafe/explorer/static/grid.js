// The details: a field for the budget or the margin of every table at every level, thresholds, switches and locks.

import { $, chip, el, heading, segmented, show, svg } from "./dom.js";
import { baselineName, unit } from "./front.js";
import { store } from "./store.js";
import { word, mark as why } from "./words.js";

let start;
const cells = new Map();
let shown = false; // Whether the optional tabulations are shown.

export function setUp(catalog) { start = catalog; }

const at = (tabulation, level) => store.scenario.entries[tabulation][level];
const exists = (level) => level.puerto_rico || !store.scenario.states.includes("72");
export const tabulationLabel = (name) => start.tabulations.find((t) => t.name === name).label;
export const levelLabel = (key) => start.levels.find((level) => level.key === key).label;
const ITERATIONS = { everyone: "everyone", "race (A–G)": "races", "ethnicity (H, I)": "ethnicity" };

export function build() {
  table();
  refresh();
}

function table() {
  cells.clear();
  show($("#grid-words"), "For each table: ", word("tau", "τ, the most people counted per household"), word("budget", `budget ${unit()}`), word("moe", "margin ±"), word("level", "level"), word("lock", "lock"),
    el("span", { class: "muted" }, "↑ and ↓ move between fields; Alt+L locks one, Alt+O switches it on or off."));
  const spans = [];
  for (const level of start.levels) {
    if (spans.length && spans.at(-1)[0] === level.geography) spans.at(-1)[1] += 1;
    else spans.push([level.geography, 1]);
  }
  const head = el("thead", {},
    el("tr", {}, el("td", { class: "corner" }), spans.map(([name, n]) => el("th", { class: "geo", colspan: n, scope: "colgroup" }, name))),
    el("tr", {}, el("td", {}), start.levels.map(columnHead)));
  const optional = start.tabulations.filter((t) => t.optional);
  const used = optional.some((t) => Object.values(store.scenario.entries[t.name]).some((entry) => entry.on));
  if (used) shown = true;
  const rest = el("tbody", { id: "optional", hidden: !shown }, optional.map(row));
  const more = el("button", { class: "small", "aria-expanded": String(shown), "aria-controls": "optional", onclick: () => { shown = rest.hidden; rest.hidden = !shown; more.setAttribute("aria-expanded", String(shown)); } }, "Measure what truncation drops (optional)");
  show($("#grid"), head, el("tbody", {}, start.tabulations.filter((t) => !t.optional).map(row)),
    optional.length ? el("tbody", { class: "more" }, el("tr", {}, el("td", { colspan: start.levels.length + 1 }, more, " ", why("truncation")))) : null, rest);
}

function columnHead(level) {
  const box = el("input", {
    type: "checkbox", "aria-label": `Publish ${level.label}`, title: `Publish ${level.label}`, "data-column": level.key,
    disabled: !exists(level), onchange: () => switchAll((s) => inColumn(s, level.key), box.checked),
  });
  const known = ITERATIONS[level.iterations];
  return el("th", { scope: "col" }, el("span", { class: "geo-small" }, level.geography), known ? word(known, level.iterations) : el("span", {}, heading(level.iterations)),
    el("label", { class: "tick" }, box, "publish"), lockAll("column", level.key, level.label));
}

function row(tabulation) {
  const { name } = tabulation;
  const label = tabulationLabel(name);
  const tau = tabulation.persons && el("input", {
    inputmode: "numeric", "data-tau": name, "aria-label": `Threshold τ of ${label} ${name}`, value: store.scenario.tau[name] ?? "",
    title: "The most people counted in one household", autocomplete: "off",
    oninput: (event) => store.change((s) => { s.tau[name] = event.target.value; }, `tau ${name}`),
  });
  const whole = tabulation.optional && el("input", {
    type: "checkbox", "data-row": name, "aria-label": `Publish ${name}`, title: `Publish ${label}`,
    onchange: () => switchAll((s) => Object.values(s.entries[name]).map((entry) => [name, entry]), whole.checked),
  });
  return el("tr", {},
    el("th", { class: "row", scope: "row" },
      el("span", { class: "name" }, label, " ", el("small", {}, name)),
      el("span", { class: "tools" }, tau ? el("label", {}, "τ ", tau) : null, whole ? el("label", { class: "tick" }, whole, "publish") : null,
        segmented(`unit-${name}`, [["budget", `budget ${unit()}`], ["moe", "margin ±"]], store.scenario.units[name], (value) => switchUnit(name, value), `Type budgets or margins for ${name}`),
        lockAll("row", name, label)),
      tau ? el("div", { class: "problem" }) : null),
    start.levels.map((level) => (tabulation.levels.includes(level.key) ? cell(name, level) : el("td", { class: "none" }))));
}

function cell(name, level) {
  const input = el("input", {
    "data-tab": name, "data-level": level.key, "aria-label": `${tabulationLabel(name)} ${name}, ${level.label}`, autocomplete: "off", spellcheck: "false", inputmode: "decimal",
    oninput: () => store.change((s) => { s.entries[name][level.key].value = input.value; }, `${name} ${level.key}`),
    onfocus: () => choose(name, level.key),
    onkeydown: (event) => keys(event, name, level.key),
  });
  const out = el("output", {});
  const lock = el("button", { class: "lock", type: "button", tabindex: "-1", title: "Lock (Alt+L): the solver keeps this budget", onclick: () => toggle(name, level.key, "locked") }, padlock());
  const bubble = el("div", { class: "problem" });
  const box = el("td", { "data-label": level.label }, input, lock, out, bubble);
  cells.set(`${name} ${level.key}`, { box, input, out, lock, bubble, level });
  return box;
}

const padlock = () => svg("svg", { viewBox: "0 0 11 12", "aria-hidden": "true" },
  svg("rect", { x: 1, y: 5, width: 9, height: 7, rx: 1.5, fill: "currentColor" }),
  svg("path", { d: "M3 5V3.5a2.5 2.5 0 0 1 5 0V5", fill: "none", stroke: "currentColor", "stroke-width": 1.6 }));

// A padlock for a whole row or column.
const lockAll = (kind, key, label) => el("button", { class: "lock all", type: "button", "data-lock": `${kind} ${key}`, title: `Lock the whole ${kind}`, "aria-label": `Lock ${label}${kind === "row" ? ` ${key}` : ""}`, onclick: () => {
  const entries = lockable(store.scenario, kind, key);
  const lock = !entries.every((entry) => entry.locked);
  store.change((s) => { for (const entry of lockable(s, kind, key)) entry.locked = lock; });
} }, padlock(), " lock");

const lockable = (s, kind, key) => (kind === "row" ? Object.values(s.entries[key]) : Object.values(s.entries).flatMap((levels) => (levels[key] ? [levels[key]] : []))).filter((entry) => entry.on);

function keys(event, name, level) {
  const moves = { ArrowUp: -1, ArrowDown: 1, Enter: 1 };
  if (event.altKey && event.code === "KeyL") { event.preventDefault(); toggle(name, level, "locked"); }
  else if (event.altKey && event.code === "KeyO") { event.preventDefault(); toggle(name, level, "on"); }
  else if (event.key in moves && !event.altKey && !event.ctrlKey) {
    event.preventDefault();
    const column = [...cells.entries()].filter(([key]) => key.endsWith(` ${level}`));
    const here = column.findIndex(([key]) => key === `${name} ${level}`);
    const next = column[here + moves[event.key]];
    if (next) { next[1].input.focus(); next[1].input.select(); }
  }
}

export function choose(tabulation, level, pin = null) {
  if (store.focus.tabulation === tabulation && store.focus.level === level && store.focus.pin === pin) return;
  Object.assign(store.focus, { tabulation, level, pin });
  refresh();
  store.tell("focus");
}

export function goTo(tabulation, level) {
  const found = cells.get(`${tabulation} ${level}`);
  if (!found) return;
  $("#details").open = true;
  found.input.focus();
  found.input.select();
}

function toggle(tabulation, level, what) {
  store.change((s) => {
    const entry = s.entries[tabulation][level];
    entry[what] = !entry[what];
    if (what === "on" && entry.on && !entry.value) entry.value = s.units[tabulation] === "moe" ? "200" : "0.001";
  });
}

// A column switches optional tabulations only where they have a value.
const belongs = (name, entry) => entry.value || !start.tabulations.find((t) => t.name === name).optional;

function inColumn(s, level) {
  return Object.entries(s.entries).filter(([name, levels]) => levels[level] && belongs(name, levels[level])).map(([name, levels]) => [name, levels[level]]);
}

function switchAll(entriesOf, on) {
  store.change((s) => {
    for (const [name, entry] of entriesOf(s)) {
      entry.on = on;
      if (on && !entry.value) entry.value = s.units[name] === "moe" ? "200" : "0.001";
    }
  });
}

function showSwitch(box, entries) {
  box.checked = entries.some((entry) => entry.on) && !box.disabled;
  box.indeterminate = box.checked && !entries.every((entry) => entry.on);
}

// Switch between budgets and targets. The server computes which target gives a budget, and which budget meets a target.
function switchUnit(name, value) {
  const rows = (store.numbers && store.numbers.rows[name]) || {};
  store.change((s) => {
    s.units[name] = value;
    for (const [level, entry] of Object.entries(s.entries[name])) {
      if (rows[level]) entry.value = value === "moe" ? rows[level].target : rows[level].budget;
      else if (!entry.on) entry.value = "";
    }
  });
}

export function refresh() {
  const { problems, scenario } = store;
  for (const [key, parts] of cells) refreshCell(key.slice(0, key.indexOf(" ")), parts);
  for (const box of document.querySelectorAll("[data-column]")) showSwitch(box, inColumn(scenario, box.dataset.column).map(([, entry]) => entry));
  for (const box of document.querySelectorAll("[data-row]")) showSwitch(box, Object.values(scenario.entries[box.dataset.row]));
  for (const button of document.querySelectorAll("[data-lock]")) {
    const [kind, key] = button.dataset.lock.split(" ");
    const entries = lockable(scenario, kind, key);
    button.setAttribute("aria-pressed", String(entries.length > 0 && entries.every((entry) => entry.locked)));
  }
  for (const input of document.querySelectorAll("[data-tau]")) {
    const name = input.dataset.tau;
    if (input.value !== (scenario.tau[name] ?? "")) input.value = scenario.tau[name] ?? "";
    problem(input, input.closest("th").querySelector(".problem"), problems[`tau.${name}`], `problem-tau-${name}`);
  }
  const delta = $("#delta");
  if (delta) problem(delta, $("#delta-problem"), problems.delta, "delta-problem");
  $("#undo").disabled = !store.past.length;
  $("#redo").disabled = !store.future.length;
  inspect();
}

function refreshCell(name, { box, input, out, lock, bubble, level }) {
  const { numbers, problems, scenario, focus } = store;
  const entry = at(name, level.key);
  const wrong = problems[`entries.${name}.${level.key}`];
  const warned = numbers && (numbers.warnings || []).some((warning) => warning.path === `entries.${name}.${level.key}`);
  const figures = numbers && numbers.rows[name] && numbers.rows[name][level.key];
  const on = entry.on && exists(level);
  if (input.value !== entry.value) input.value = entry.value;
  input.disabled = !on;
  box.className = [on ? "" : "off", entry.locked ? "locked" : "", warned ? "warned" : "", focus.tabulation === name && focus.level === level.key ? "chosen" : ""].join(" ").trim();
  lock.setAttribute("aria-pressed", String(entry.locked));
  lock.setAttribute("aria-label", `Lock ${name}, ${level.label}`);
  problem(input, bubble, wrong, `problem-${name}-${level.key}`);
  if (!on) show(out, "not published");
  else if (wrong || !figures) show(out, wrong ? "?" : "");
  else show(out, el("span", { class: "nowrap" }, scenario.units[name] === "moe" ? `${unit()} ${figures.budget} ` : `± ${figures.moe_text} `), figures.change && figures.change.moe.state !== "same" ? chip(figures.change.moe) : null);
}

function problem(input, node, message, id) {
  input.setAttribute("aria-invalid", String(Boolean(message)));
  node.id = id;
  node.textContent = message || "";
  if (message) input.setAttribute("aria-describedby", id);
  else input.removeAttribute("aria-describedby");
}

function inspect() {
  const { tabulation, level } = store.focus;
  const entry = tabulation && at(tabulation, level);
  const listed = Object.entries(store.problems).slice(0, 4).map(([path, message]) => el("div", { class: "problem", role: "alert" }, `${fieldName(path)}: ${message}`));
  const figures = entry && store.numbers && store.numbers.rows[tabulation] && store.numbers.rows[tabulation][level];
  const box = (what, label) => {
    const input = el("input", { type: "checkbox", onchange: () => toggle(tabulation, level, what) });
    input.checked = entry[what];
    return el("label", {}, input, label);
  };
  show($("#inspector"), entry ? [
    el("strong", {}, `${tabulationLabel(tabulation)}, ${levelLabel(level)} `, el("small", {}, tabulation)), box("on", "published"), box("locked", "locked"),
    figures && entry.on && !store.problems[`entries.${tabulation}.${level}`] ? el("span", { class: "num" }, `${unit()} ${figures.unbounded} added or removed, ${figures.bounded} changed · ± ${figures.moe_text} for each `, why("cell"), ` · ${figures.share_text} of the total`, figures.before && baselineName() ? ` · ± ${figures.before.moe_text} in ${baselineName()} ` : "", chip(figures.change && figures.change.moe)) : null] : null, listed);
}

// What is wrong, for the message at the bottom of the window.
export function firstProblem() {
  const [[path, message], ...others] = Object.entries(store.problems);
  return `${fieldName(path)}: ${message}${others.length ? ` (and ${others.length} more)` : ""}`;
}

// The name of a field for messages: "entries.PH3.state_*" is the table's title and code, and the level.
function fieldName(path) {
  const [group, tabulation, ...level] = path.split(".");
  if (group === "entries" && level.length) return `${tabulationLabel(tabulation)} (${tabulation}), ${levelLabel(level.join("."))}`;
  if (group === "tau") return `Threshold τ of ${tabulationLabel(tabulation)} (${tabulation})`;
  return { delta: "δ", entries: "Levels", scenario: "Scenario" }[path] || path;
}
