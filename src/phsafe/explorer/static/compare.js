// All scenarios side by side; differences are against the first.

import { ask } from "./api.js";
import { modeName } from "./choices.js";
import { el, notice } from "./dom.js";
import { openDialog } from "./files.js";
import { levelLabel, tabulationLabel } from "./grid.js";
import { store } from "./store.js";
import { mark } from "./words.js";

export async function compare(start) {
  let columns;
  try { ({ columns } = await ask("compare", { scenarios: store.scenarios, pins: store.pins })); } catch (error) { notice(error.message); return; }
  const good = columns.filter((column) => column.totals);
  if (!good.length) { notice("No scenario has valid numbers yet."); return; }
  const left = columns.length - good.length;
  openDialog("Scenarios side by side", left ? el("p", { class: "problem" }, `Not shown: ${left} scenario${left > 1 ? "s" : ""} with invalid fields.`) : null,
    good.length === 1 ? el("p", {}, "There is only one scenario. Close this, press “+ copy”, change something, and compare again.") : el("p", {}, `Differences are against the first, ${good[0].name}. Green is more accurate or better protected, red the opposite.`),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Comparison" }, el("table", { class: "plain", id: "comparison" },
      el("thead", {}, el("tr", {}, el("td", {}), good.map((c) => el("th", { scope: "col" }, c.name)))), el("tbody", {}, sections(start, good)))));
}

function sections(start, good) {
  const line = (label, value, number, change) => row(good, label, value, number, change);
  // A ρ and an ε are not compared.
  const loss = (name) => (c) => (c.privacy === good[0].privacy ? Number(c.totals[name]) : 0);
  const part = (title) => el("tr", { class: "part" }, el("th", { scope: "rowgroup", colspan: good.length + 1 }, title));
  // Margins of one kind: finished ones if all scenarios have them.
  const margin = (c, i) => c.pins[i][good.every((each) => each.pins[i].finished || !each.pins[i].published) ? "finished" : "measured"];
  const pins = good[0].pins.map((pin, i) => line(pin.label, (c) => (margin(c, i) ? `± ${margin(c, i).moe_text}` : "not published"), (c) => (margin(c, i) ? margin(c, i).moe : 0)));
  const rows = start.tabulations.flatMap((t) => t.levels.map((key) => {
    const name = `${t.name} ${key}`;
    if (!good.some((column) => column.rows[name])) return null;
    const label = [`${tabulationLabel(t.name)}, ${levelLabel(key)} `, el("small", {}, t.name)];
    return line(label, (c) => (c.rows[name] ? `± ${c.rows[name].moe_text}  ·  ${c.rows[name].budget}` : "not published"), (c) => (c.rows[name] ? c.rows[name].moe : 0));
  }));
  return [part("Privacy"), line("How much one person can change", (c) => modeName(c.sensitivity)), line("Privacy definition", (c) => ({ zcdp: "zCDP (ρ)", puredp: "Pure DP (ε)" })[c.privacy]),
    line("Privacy loss, person added or removed", (c) => c.totals.unbounded, loss("unbounded")), line("Privacy loss, record changed", (c) => c.totals.bounded, loss("bounded")),
    line("ε, person added or removed", (c) => c.totals.epsilon_text, (c) => c.totals.epsilon), line("ε, record changed", (c) => c.totals.epsilon_bounded_text, (c) => c.totals.epsilon_bounded),
    line("Someone guesses right whether you were counted", (c) => c.person[0].guesses_text, (c) => c.person[0].guesses, points), line("Someone guesses right what your record says", (c) => c.person[1].guesses_text, (c) => c.person[1].guesses, points),
    line(["Tight accounting, person added or removed ", mark("accounting")], (c) => c.totals.tight_unbounded, loss("tight_unbounded")),
    part("Groups you care about"), ...pins,
    part("Thresholds"), ...start.tabulations.filter((t) => t.persons).map((t) => line([`τ of ${tabulationLabel(t.name)} `, el("small", {}, t.name)], (c) => String(c.tau[t.name]))),
    part("Margin of error · budget"), ...rows].filter(Boolean);
}

const percent = (now, then) => `${Math.abs(100 * (now / then - 1)).toFixed(1)} %`;
// Of the shares as shown, which are rounded up.
const points = (now, then) => `${(Math.abs(Math.ceil(1000 * now) - Math.ceil(1000 * then)) / 10).toFixed(1)} points`;

function row(good, label, value, number, change = percent) {
  const [base] = good;
  return el("tr", {}, el("th", { scope: "row", class: "wrap" }, label), good.map((column) => {
    const [now, then] = number ? [number(column), number(base)] : [0, 0];
    const state = column === base || !(now > 0) || !(then > 0) || Math.abs(now - then) < 5e-4 * then ? "" : now < then ? "better" : "worse";
    return el("td", { class: state }, `${value(column)}${state ? ` (${now > then ? "▲ +" : "▼ −"}${change(now, then)})` : ""}`);
  }));
}
