// The left side: sensitivity, privacy definition, published levels, thresholds, budgets or targets, locks and solver.

import { ask } from "./api.js";
import { $, el, heading, notice, segmented, select, show, svg } from "./dom.js";
import { store } from "./store.js";

let start;
const cells = new Map();

export function setUp(catalog) { start = catalog; }

export const unit = () => (store.scenario.privacy === "zcdp" ? "ρ" : "ε");
const at = (tabulation, level) => store.scenario.entries[tabulation][level];
const exists = (level) => level.puerto_rico || !store.scenario.states.includes("72");

export function build() {
  choices();
  table();
  solver();
  refresh();
}

function choices() {
  const scenario = store.scenario;
  const whole = (name) => (value) => store.change((s) => { s[name] = value; }, null, "all");
  const delta = el("input", {
    id: "delta", "aria-label": "δ", autocomplete: "off", spellcheck: "false", value: scenario.delta,
    oninput: (event) => store.change((s) => { s.delta = event.target.value; }, "delta"),
  });
  const pr = scenario.states.includes("72");
  const areas = [["us", "50 states and DC"], ["pr", "Puerto Rico"]];
  const custom = !pr && scenario.states.length !== 51;
  if (custom) areas.push(["own", `${scenario.states.length} selected state${scenario.states.length === 1 ? "" : "s"}`]);
  const states = start.levels.at(-1).regions.map(([code]) => code.slice(0, 2));
  show($("#choices"),
    choice("Sensitivity", segmented("sensitivity", [
      ["published", "Published", "The 2020 bound: 2τ + 2 rows, all in one cell"],
      ["tight", "Tight", "The smallest valid bound for a person added or removed; keeps the unbounded loss. Assumes public geography and can protect a whole household less"],
      ["tight-bounded", "Tight-bounded", "The smallest valid bound for a changed record; keeps the bounded loss. Assumes public geography and can protect a whole household less"],
      ["structured", "Structured", "Keeps the unbounded loss; counts cells that need no unit record without it. Like the tight modes, assumes public geography and can protect a whole household less"],
    ], scenario.sensitivity, whole("sensitivity"), "Sensitivity")),
    choice("Privacy", segmented("privacy", [["zcdp", "zCDP ρ", "Discrete Gaussian noise"], ["puredp", "Pure ε", "Two-sided geometric noise"]],
      scenario.privacy, whole("privacy"), "Privacy definition")),
    choice("ε at δ", delta, el("div", { class: "bubble", id: "delta-problem" })),
    start.standard.length ? choice("Area", select(areas, custom ? "own" : pr ? "pr" : "us", (value) => store.change((s) => {
      if (value === "pr") s.states = ["72"];
      else if (value === "us") s.states = states.filter((code) => code !== "72");
    }, null, "all"), "Area")) : null);
}

const choice = (label, ...nodes) => el("div", { class: "choice" }, el("span", {}, label), ...nodes);

function table() {
  cells.clear();
  const spans = [];
  for (const level of start.levels) {
    if (spans.length && spans.at(-1)[0] === level.geography) spans.at(-1)[1] += 1;
    else spans.push([level.geography, 1]);
  }
  const head = el("thead", {},
    el("tr", {}, el("td", { class: "corner" }), spans.map(([name, n]) => el("th", { class: "geo", colspan: n, scope: "colgroup" }, name))),
    el("tr", {}, el("td"), start.levels.map((level) => {
      const box = el("input", {
        type: "checkbox", "aria-label": `Publish ${level.label}`, "data-column": level.key,
        disabled: !exists(level), onchange: () => switchAll((s) => inColumn(s, level.key), box.checked),
      });
      return el("th", { scope: "col" }, el("label", { title: `Publish ${level.label}` },
        box, el("span", {}, heading(level.iterations))));
    })));
  const body = el("tbody", {}, start.tabulations.map(row));
  show($("#grid"), head, body);
}

function row(tabulation) {
  const name = tabulation.name;
  const tau = tabulation.persons && el("input", {
    inputmode: "numeric", "data-tau": name, "aria-label": `Threshold of ${name}`, value: store.scenario.tau[name] ?? "",
    title: "The most people counted in one household", autocomplete: "off",
    oninput: (event) => store.change((s) => { s.tau[name] = event.target.value; }, `tau ${name}`),
  });
  const whole = tabulation.optional && el("input", {
    type: "checkbox", "data-row": name, "aria-label": `Publish ${name}`, title: `Publish ${tabulation.title}`,
    onchange: () => switchAll((s) => Object.values(s.entries[name]).map((entry) => [name, entry]), whole.checked),
  });
  return el("tr", {},
    el("th", { class: "row", scope: "row", title: `${tabulation.table}: ${tabulation.title}` },
      el("span", { class: "name" }, name),
      el("span", { class: "tools" }, tau ? ["τ", tau] : null, whole || null,
        segmented(`unit-${name}`, [["budget", unit(), "Enter budgets"], ["moe", "MOE", "Enter target margins of error"]],
          store.scenario.units[name], (value) => switchUnit(tabulation, value), `Input for ${name}`)),
      tau ? el("div", { class: "bubble" }) : null),
    start.levels.map((level) => (tabulation.levels.includes(level.key) ? cell(name, level) : el("td", { class: "none" }))));
}

function cell(name, level) {
  const input = el("input", {
    "data-tab": name, "data-level": level.key, "aria-label": `${name}, ${level.label}`, autocomplete: "off", spellcheck: "false", inputmode: "decimal",
    oninput: () => store.change((s) => { s.entries[name][level.key].value = input.value; }, `${name} ${level.key}`),
    onfocus: () => choose(name, level.key),
    onkeydown: (event) => keys(event, name, level.key),
  });
  const out = el("output", {});
  const lock = el("button", { class: "lock", type: "button", tabindex: "-1", title: "Lock (Alt+L): the solver keeps this budget", onclick: () => toggle(name, level.key, "locked") }, padlock());
  const bubble = el("div", { class: "bubble" });
  const box = el("td", {}, input, out, lock, bubble);
  cells.set(`${name} ${level.key}`, { box, input, out, lock, bubble, level });
  return box;
}

const padlock = () => svg("svg", { viewBox: "0 0 11 12", "aria-hidden": "true" },
  svg("rect", { x: 1, y: 5, width: 9, height: 7, rx: 1.5, fill: "currentColor" }),
  svg("path", { d: "M3 5V3.5a2.5 2.5 0 0 1 5 0V5", fill: "none", stroke: "currentColor", "stroke-width": 1.6 }));

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

export function choose(tabulation, level) {
  if (store.focus.tabulation === tabulation && store.focus.level === level) return;
  Object.assign(store.focus, { tabulation, level });
  refresh();
  store.tell("focus");
}

export function goTo(tabulation, level) {
  const cell = cells.get(`${tabulation} ${level}`);
  if (cell) { cell.input.focus(); cell.input.select(); }
}

function toggle(tabulation, level, what) {
  store.change((s) => {
    const entry = s.entries[tabulation][level];
    entry[what] = !entry[what];
    if (what === "on" && entry.on && !entry.value) entry.value = s.units[tabulation] === "moe" ? "200" : "0.001";
  });
  refresh();
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
  refresh();
}

function showSwitch(box, entries) {
  box.checked = entries.some((entry) => entry.on) && !box.disabled;
  box.indeterminate = box.checked && !entries.every((entry) => entry.on);
}

// Switch between budgets and targets. The server computes which target gives a budget, and which budget meets a target.
function switchUnit(tabulation, value) {
  const rows = (store.numbers && store.numbers.rows[tabulation.name]) || {};
  store.change((s) => {
    s.units[tabulation.name] = value;
    for (const [level, entry] of Object.entries(s.entries[tabulation.name])) {
      if (rows[level]) entry.value = value === "moe" ? rows[level].target : rows[level].budget;
      else if (!entry.on) entry.value = "";
    }
  });
  refresh();
}

export function refresh() {
  const { numbers, problems, scenario } = store;
  for (const [key, { box, input, out, lock, bubble, level }] of cells) {
    const [name, of] = [key.slice(0, key.indexOf(" ")), level.key];
    const entry = at(name, of);
    const problem = problems[`entries.${name}.${of}`];
    const row = numbers && numbers.rows[name] && numbers.rows[name][of];
    const on = entry.on && exists(level);
    if (input.value !== entry.value) input.value = entry.value;
    input.disabled = !on;
    box.className = [on ? "" : "off", entry.locked ? "locked" : "", store.focus.tabulation === name && store.focus.level === of ? "chosen" : ""].join(" ").trim();
    lock.setAttribute("aria-pressed", String(entry.locked));
    lock.setAttribute("aria-label", `Lock ${name}, ${level.label}`);
    mark(input, bubble, problem, `problem-${name}-${of}`);
    out.textContent = !on ? "not published" : problem ? "?" : !row ? "" : scenario.units[name] === "moe" ? `${unit()} ${row.budget}` : `± ${row.moe_text}`;
  }
  for (const box of document.querySelectorAll("[data-column]")) {
    showSwitch(box, inColumn(scenario, box.dataset.column).map(([, entry]) => entry));
  }
  for (const box of document.querySelectorAll("[data-row]")) showSwitch(box, Object.values(scenario.entries[box.dataset.row]));
  for (const input of document.querySelectorAll("[data-tau]")) {
    const name = input.dataset.tau;
    if (input.value !== (scenario.tau[name] ?? "")) input.value = scenario.tau[name] ?? "";
    mark(input, input.closest("th").querySelector(".bubble"), problems[`tau.${name}`], `problem-tau-${name}`);
  }
  const delta = $("#delta");
  if (delta) mark(delta, $("#delta-problem"), problems.delta, "delta-problem");
  $("#undo").disabled = !store.past.length;
  $("#redo").disabled = !store.future.length;
  inspect();
}

function mark(input, bubble, problem, id) {
  input.setAttribute("aria-invalid", String(Boolean(problem)));
  bubble.id = id;
  bubble.textContent = problem || "";
  bubble.style.display = problem ? "" : "none";
  if (problem) input.setAttribute("aria-describedby", id);
  else input.removeAttribute("aria-describedby");
}

function inspect() {
  const { tabulation, level } = store.focus;
  const entry = tabulation && at(tabulation, level);
  const listed = Object.entries(store.problems).slice(0, 4).map(([path, message]) =>
    el("div", { class: "problem", role: "alert" }, `${fieldName(path)}: ${message}`));
  if (!entry) { show($("#inspector"), el("span", { class: "muted" }, "Select a field. Alt+L locks it, Alt+O switches it on or off, ↑ and ↓ move between fields."), listed); return; }
  const row = store.numbers && store.numbers.rows[tabulation] && store.numbers.rows[tabulation][level];
  const box = (what, label) => {
    const input = el("input", { type: "checkbox", onchange: () => toggle(tabulation, level, what) });
    input.checked = entry[what];
    return el("label", {}, input, label);
  };
  show($("#inspector"),
    el("strong", {}, `${tabulation}, ${levelLabel(level)}`), box("on", "published"), box("locked", "locked"),
    row && entry.on && !store.problems[`entries.${tabulation}.${level}`] ? el("span", { class: "num" }, `${unit()} ${row.unbounded} unbounded, ${row.bounded} bounded · ± ${row.moe_text} · ${row.share_text} of the total`) : null,
    listed);
}

export const levelLabel = (key) => start.levels.find((level) => level.key === key).label;

// The name of a field for messages: "entries.PH3.state_*" is "PH3, State × everyone".
function fieldName(path) {
  const [group, tabulation, ...level] = path.split(".");
  if (group === "entries" && level.length) return `${tabulation}, ${levelLabel(level.join("."))}`;
  if (group === "tau") return `Threshold of ${tabulation}`;
  return { delta: "δ", entries: "Levels", scenario: "Scenario" }[path] || path;
}

function solver() {
  const form = $("#solve");
  const kept = store.solver || { total: "", neighbours: "unbounded", weights: "equal" };
  store.solver = kept;
  const total = el("input", { id: "total", "aria-label": "Total to split", inputmode: "decimal", autocomplete: "off", value: kept.total, placeholder: "1.257281", oninput: () => { kept.total = total.value; problem.textContent = ""; } });
  const problem = el("p", { class: "problem", id: "total-problem", role: "alert" });
  show(form,
    el("label", { class: "field" }, el("span", {}, `Solve for a total ${unit()}`), total),
    choice("for one person", segmented("neighbours", [["unbounded", "added/removed"], ["bounded", "changed"]], kept.neighbours, (v) => { kept.neighbours = v; }, "Neighbours")),
    choice("weights", select([["equal", "all levels equal"], ["cells", "all cells equal"]], kept.weights, (v) => { kept.weights = v; }, "Weights")),
    el("button", { class: "main", id: "split" }, "Split"),
    problem);
  form.onsubmit = async (event) => {
    event.preventDefault();
    try {
      const answer = await ask("solve", { scenario: store.scenario, ...kept, total: total.value || total.placeholder });
      const message = answer.problems.total || (Object.keys(answer.problems).length ? "Correct the marked fields first." : "");
      if (message) { problem.className = "problem"; problem.textContent = message; total.setAttribute("aria-invalid", "true"); return; }
      total.setAttribute("aria-invalid", "false");
      store.change((s) => Object.assign(s, answer.scenario), null, "all");
      const node = $("#total-problem");
      node.className = "muted";
      node.textContent = `Weighted sum of squared margins: ${short(answer.weighted_squared_moe_before)} before, ${short(answer.weighted_squared_moe)} now. Locked levels are unchanged.`;
    } catch (error) { notice(error.message); }
  };
}

const short = (x) => x.toLocaleString("en-US", { maximumFractionDigits: 0 });
