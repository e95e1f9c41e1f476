// The right side: the results. The server computes every number shown here.

import { ask } from "./api.js";
import { bars, curve } from "./charts.js";
import { $, el, heading, notice, segmented, select, show } from "./dom.js";
import { goTo, levelLabel, unit } from "./grid.js";
import { store } from "./store.js";

let start;
let method = "formula";
let joint = null;
let jointFor = "";

export function setUp(catalog) {
  start = catalog;
  const methods = [["formula", "1.645 σ", "The paper’s formula"], ["exact", "exact", "The 90 % quantile of the noise itself"], ["joint", "after joint fit", "After joint estimation: weighted least squares over all identities between measurements"]];
  show($("#moe-kind"), segmented("moe-kind", methods, method, (value) => { method = value; if (store.numbers) matrix(); }, "How to compute the margin of error"));
  show($("#table-choice"), select(start.tables.map((t) => [t.name, `${t.name}  ${t.title}`]), store.focus.table, (v) => { store.focus.table = v; groupForm(); store.tell("focus"); }, "Table"));
  groupForm();
}

export function render() {
  const { numbers } = store;
  if (!numbers) return;
  kpis(numbers);
  matrix();
  show($("#spend"), bars(start, numbers));
  show($("#curve"), el("p", { class: "muted" }, `${numbers.curve.tabulation}, ${levelLabel(numbers.curve.level)}`), curve(numbers.curve, unit()));
  person(numbers);
  truncation(numbers);
  lines(numbers);
  group(numbers);
}

function kpis({ totals, person }) {
  const tile = (id, label, value, below, title) => el("div", { class: "kpi", title }, el("span", {}, label), el("b", { id }, value), el("span", {}, below));
  show($("#kpis"),
    tile("total-unbounded", `Total ${unit()}, unbounded`, totals.unbounded, `ε ${totals.epsilon_text} at δ ${totals.delta}`, "The loss for one person added or removed"),
    tile("total-bounded", `Total ${unit()}, bounded`, totals.bounded, `ε ${totals.epsilon_bounded_text} at δ ${totals.delta}`, "The loss for one person’s record changed"),
    tile("guesses", "Attacker is right", person[1].guesses_text, `inclusion: ${person[0].guesses_text}`, "How often the best attacker correctly guesses which of two values your record holds, or (inclusion) whether you are in the data; a coin flip is right 50 % of the time"),
    tile("tight", "Tight accounting", totals.tight_unbounded, `bounded ${totals.tight_bounded}`, "The loss of the same noise under the smallest valid sensitivity"));
}

function heat(moe, low, high) {
  const t = high > low ? (Math.log(moe) - Math.log(low)) / (Math.log(high) - Math.log(low)) : 0.5;
  return `color-mix(in srgb, var(--accent) ${(4 + 24 * t).toFixed(0)}%, transparent)`;
}

function matrix() {
  const { numbers } = store;
  if (method === "joint") fetchJoint();
  const value = (name, level, row) => {
    if (method === "exact") return [row.moe_exact, row.moe_exact.toLocaleString("en-US")];
    if (method === "joint") return joint && joint[name] && joint[name][level] ? [joint[name][level].moe, joint[name][level].moe_text] : [row.moe, "…"];
    return [row.moe, row.moe_text];
  };
  const all = Object.entries(numbers.rows).flatMap(([name, levels]) => Object.entries(levels).map(([level, row]) => value(name, level, row)[0])).filter((x) => x > 0);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const cell = (name, level, row, hot) => {
    if (!row) return el("td", { class: "muted" }, "–");
    const [number, text] = value(name, level, row);
    const chosen = hot && store.focus.tabulation === name && store.focus.level === level;
    const node = el("td", { class: `${hot ? "hot" : ""} ${chosen ? "chosen" : ""}`, "data-moe": hot ? `${name} ${level}` : null, "data-value": number, title: hot ? `${row.budget} → ± ${row.moe}` : null, onclick: hot ? () => goTo(name, level) : null }, text);
    if (number > 0) node.style.background = heat(number, low, high);
    return node;
  };
  const measured = start.tabulations.filter((t) => numbers.rows[t.name]).map((t) =>
    el("tr", {}, el("td", { title: t.title }, t.name), start.levels.map((level) => cell(t.name, level.key, numbers.rows[t.name][level.key], true))));
  const derived = method === "joint" ? [] : numbers.derived.map((d) =>
    el("tr", { class: "derived" }, el("td", {}, `${d.name}, cell ${d.cell} (from ${d.source})`), start.levels.map((level) => cell(d.name, level.key, d.levels[level.key], false))));
  show($("#matrix"), el("table", { class: "plain", id: "moes" }, el("thead", {}, el("tr", {}, el("th", {}, method === "joint" && !joint ? "computing…" : "of a basis cell"), start.levels.map(head))), el("tbody", {}, measured, derived)));
}

const head = (level) => el("th", {}, heading(level.label));

async function fetchJoint() {
  const scenario = store.scenario;
  const now = JSON.stringify([scenario.entries, scenario.tau, scenario.units, scenario.sensitivity, scenario.privacy, scenario.states]);
  if (now === jointFor) return;
  jointFor = now;
  joint = null;
  try {
    const answer = await ask("joint", { scenario });
    if (now !== jointFor || !answer.margins) return;
    joint = answer.margins;
    if (method === "joint") matrix();
  } catch (error) { notice(error.message); }
}

function person({ person: risks, totals }) {
  show($("#person"), el("div", { class: "stack" }, risks.map((risk) => {
    const meter = el("div", { class: "meter", role: "img", "aria-label": `${risk.guesses_text} instead of 50 %` }, el("i", { "width%": 100 * risk.guesses }), el("b"));
    return el("div", {}, el("div", {}, `An attacker who knows every other record and starts at 50:50 on ${risk.question}`), meter,
      el("div", {}, el("strong", {}, `guesses right at most about ${risk.guesses_text} of the time`), el("small", {}, ` (${risk.neighbours}; ${risk.any_noise_text} for any noise with this loss).`)),
      el("small", {}, totals.delta === "0" ? "" : `Worst case, except with probability δ = ${totals.delta}: ${risk.certainty_text} certain afterwards (ε = ${risk.epsilon_text}).`));
  })));
}

function truncation({ truncation: rows }) {
  show($("#truncation"), el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, ["tabulation", "τ", "dropped", "at τ − 1", "at τ + 1"].map((column) => el("th", {}, column)))),
    el("tbody", {}, rows.map((row) => {
      const near = (tau) => { const share = (start.truncation.shares[row.tabulation] || {})[String(tau)]; return share === undefined ? "–" : `${share.toFixed(share < 0.1 ? 3 : 2)} %`; };
      return el("tr", {}, el("td", {}, row.tabulation), el("td", {}, String(row.tau)), el("td", {}, el("strong", {}, row.text)), el("td", {}, near(row.tau - 1)), el("td", {}, near(row.tau + 1)));
    }))), el("p", {}, el("small", {}, `Source of the shares: ${start.truncation.source}. A larger τ drops fewer people but adds more noise.`)));
}

function lines({ table }) {
  const levels = start.levels.filter((level) => table.levels.includes(level.key));
  const average = table.lines.some((line) => line.per);
  const margin = (line, level) => [line.count[level].moe_text, line.per ? el("small", {}, `÷ ${line.per[level].moe_text}`) : null];
  show($("#lines"), el("table", { class: "plain" }, el("thead", {}, el("tr", {}, el("th", {}, average ? "line: ± people ÷ ± units" : "line: ± count"), levels.map(head))),
    el("tbody", {}, table.lines.map((line) => {
      const label = el("td", { class: "wrap" }, `${line.number}  ${line.label}`);
      label.style.paddingLeft = `${6 + 14 * line.indent}px`;
      return el("tr", {}, label, levels.map((level) => el("td", { title: `exact ± ${line.count[level.key].moe_exact}` }, margin(line, level.key))));
    }))));
}

// A region and an iteration identify a population group and its level. Its size is a public figure the user can change.
function regions() {
  const found = new Map();
  for (const level of start.levels) for (const [code, name] of level.regions) found.set(code, name);
  return [...found];
}

function levelOf(region, iteration) {
  return start.levels.find((level) => level.regions.some(([code]) => code === region) && level.groups.some(([code]) => code === iteration));
}

function sizes() {
  const { focus } = store;
  const known = start.groups[`${focus.region} ${focus.iteration}`];
  const share = start.universes[focus.table] || { people: 1, units: 1 };
  if (known) Object.assign(focus, { units: String(round(known[0] * share.units)), people: String(round(known[1] * share.people)) });
}

const round = (x) => Number(x.toPrecision(3));

function groupForm() {
  const { focus } = store;
  const again = (change) => { Object.assign(focus, change); sizes(); groupForm(); store.tell("focus"); };
  if (!focus.people) sizes();
  focus.group_level = (levelOf(focus.region, focus.iteration) || {}).key;
  const iterations = new Map(start.levels.filter((l) => l.regions.some(([code]) => code === focus.region)).flatMap((l) => l.groups));
  const table = start.tables.find((t) => t.name === focus.table);
  const field = (name, label) => el("label", { class: "field" }, el("span", {}, label),
    el("input", { id: `group-${name}`, inputmode: "numeric", autocomplete: "off", value: focus[name], oninput: (event) => { focus[name] = event.target.value; store.tell("focus"); } }));
  const out = el("div", { id: "group-says", class: "stack" });
  const pick = $("#table-choice select");
  if (pick && pick.value !== focus.table) pick.value = focus.table;
  show($("#group"), el("div", { class: "form" },
    select(start.tables.map((t) => [t.name, t.name]), focus.table, (v) => again({ table: v }), "Table of the group"),
    select(regions(), focus.region, (v) => again({ region: v }), "Region"),
    select([...iterations], focus.iteration, (v) => again({ iteration: v }), "Race or ethnicity"),
    field("people", "people counted"), table.average ? field("units", table.universe.toLowerCase()) : null), out);
}

function group({ group: says }) {
  const { focus } = store;
  const table = start.tables.find((t) => t.name === focus.table);
  const where = new Map(regions()).get(focus.region);
  const who = start.levels.flatMap((l) => l.groups).find(([code]) => code === focus.iteration)[1];
  if (says.problem) { show($("#group-says"), el("p", { class: "problem", role: "alert" }, says.problem)); return; }
  const about = Number(focus.people.replaceAll(",", "")).toLocaleString("en-US");
  const verdict = { good: "a reliable estimate", rough: "a rough estimate", noise: "hardly more than noise" }[says.verdict];
  show($("#group-says"), el("div", {}, `${who}, ${where}: about ${about} people. ${table.title}, total:`),
    el("div", { class: `says ${says.verdict}`, id: "says" }, says.sentence), el("div", {}, `${says.detail} In short: ${verdict}.`),
    el("small", {}, "Sizes are rounded public figures (ACS 2024, and shares from synthetic data); you can change them. Truncation and postprocessing are not included."));
}
