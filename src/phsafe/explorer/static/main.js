// Start the page. On every change, fetch the new numbers from the server and show them.

import { ask, findToken } from "./api.js";
import * as choices from "./choices.js";
import { compare } from "./compare.js";
import { $, el, notice, show } from "./dom.js";
import * as files from "./files.js";
import * as finished from "./finished.js";
import * as front from "./front.js";
import * as grid from "./grid.js";
import * as pins from "./pins.js";
import * as results from "./results.js";
import * as solve from "./solve.js";
import { pinId, plainPin, store } from "./store.js";
import * as summary from "./summary.js";
import * as tour from "./tour.js";
import * as words from "./words.js";

let start;
let running = null;

async function evaluate() {
  const since = performance.now();
  if (running) running.abort();
  const mine = (running = new AbortController());
  const page = document.documentElement.dataset;
  page.busy = "yes";
  try {
    const numbers = await ask("evaluate", { ...store.request(), focus: store.focus }, mine.signal);
    if (mine !== running) return;
    store.problems = numbers.problems;
    const bad = Object.keys(numbers.problems).length > 0;
    document.body.classList.toggle("stale", bad);
    if (bad) notice(`The numbers shown are the last valid ones: ${grid.firstProblem()}`, "stale");
    else {
      if ($("#notice").className === "stale") notice("");
      store.numbers = numbers;
      finished.forget();
      draw();
      if (numbers.finished !== "unavailable") finished.follow(drawFinished);
    }
    grid.refresh();
    // For benchmarks: milliseconds from the change to the new numbers.
    page.latency = (performance.now() - since).toFixed(1);
    page.settled = String(Number(page.settled || 0) + 1);
  } catch (error) {
    if (error.name !== "AbortError") notice(error.message);
  } finally {
    if (mine === running) page.busy = "no";
  }
}

function draw() {
  front.render();
  pins.render();
  solve.refresh();
  results.render();
}

function drawFinished() {
  front.render();
  pins.render();
  results.matrix();
}

function tabs() {
  show($("#scenarios"), store.scenarios.map((scenario, i) => {
    if (i !== store.active) return el("span", { class: "tab" }, el("button", { title: scenario.name, onclick: () => store.choose(i) }, scenario.name));
    const name = el("input", { "aria-label": "Name of this scenario", maxlength: "80", oninput: () => { fit(); store.change((s) => { s.name = name.value || "Scenario"; }, "name", "name"); } });
    const fit = () => { name.style.width = `${Math.min(30, name.value.length + 4)}ch`; };
    name.value = scenario.name;
    fit();
    return el("span", { class: "tab active", "aria-current": "true" }, name,
      store.scenarios.length > 1 ? el("button", { class: "small", title: "Close this scenario", "aria-label": "Close this scenario", onclick: () => store.remove(i) }, "✕") : null);
  }), el("button", { id: "keep", title: "Keep this scenario and continue in a copy", onclick: () => store.add([structuredClone(store.scenario)]) }, "+ copy"));
}

function build() {
  tabs();
  front.against();
  choices.build();
  solve.build();
  grid.build();
}

function listen() {
  store.listen((what) => {
    // A message about an earlier step, and its Undo, would now be about another one.
    if ($("#notice").className === "calm") notice("");
    if (what === "all") build();
    else if (what !== "name") tabs();
    if (what === "name") { front.against(); return; }
    if (what === "solver") { grid.refresh(); return; }
    evaluate();
  });
  $("#undo").onclick = () => store.undo();
  $("#redo").onclick = () => store.redo();
  $("#standard").onclick = () => store.add([structuredClone(start.standard[store.scenario.states.includes("72") ? 1 : 0])]);
  $("#standard").hidden = !start.standard.length;
  $("#compare").onclick = () => compare(start);
  $("#open").onclick = files.open;
  $("#share").onclick = files.share;
  $("#summary").onclick = summary.open;
  for (const button of document.querySelectorAll("[data-export]")) button.onclick = () => files.exportAs(button.dataset.export);
  $("#theme").onclick = () => {
    const page = document.documentElement.dataset;
    const dark = page.theme ? page.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    page.theme = dark ? "light" : "dark";
    localStorage.setItem("phsafe-theme", page.theme);
  };
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || $("#dialog").open) return;
    event.preventDefault();
    if (event.shiftKey) store.redo(); else store.undo();
  });
  document.addEventListener("click", (event) => { if (!$("#export").contains(event.target)) $("#export").open = false; });
  addEventListener("hashchange", async () => { const code = shared(); if (code) await files.openShared(code); });
}

// The scenario in the address, which is then cleared.
function shared() {
  const code = new URLSearchParams(location.hash.slice(1)).get("s");
  if (code) history.replaceState(null, "", location.pathname);
  return code;
}

async function restore() {
  store.standard = start.standard.map((scenario) => scenario.name);
  store.scenarios = start.scenarios;
  store.active = start.active ?? 0;
  if (start.compared_with) {
    store.scenarios.push(start.compared_with);
    store.baseline = store.scenarios.length - 1;
  }
  store.pins = (start.scenarios[0].states.includes("72") ? start.pins_pr : start.pins).map((pin) => plainPin({ ...pin, people: "", units: "" }));
  try {
    const kept = JSON.parse(store.kept() || "null");
    if (!kept) return;
    const answer = await ask("open", { text: JSON.stringify({ scenarios: kept.scenarios, pins: kept.pins }), name: "kept" });
    const last = answer.scenarios.length - 1;
    Object.assign(store, { scenarios: answer.scenarios, active: Math.min(kept.active || 0, last), baseline: kept.baseline <= last ? kept.baseline : -1, pins: kept.pins, solver: kept.solver });
  } catch { /* the stored scenarios don't fit this catalog: start afresh */ }
}

// The charts start with the first pinned group, or with the first published level.
function firstFocus() {
  const pin = store.pins.length && [...start.pins, ...start.pins_pr].find((each) => pinId(each) === pinId(store.pins[0]));
  if (pin && store.scenario.entries[pin.sources[0][0]][pin.sources[0][1]].on) return { tabulation: pin.sources[0][0], level: pin.sources[0][1], pin: store.pins[0] };
  const [first] = start.tabulations;
  return { tabulation: first.name, level: first.levels.find((key) => store.scenario.entries[first.name][key].on) || first.levels[0], pin: null };
}

async function main() {
  const theme = localStorage.getItem("phsafe-theme");
  if (theme) document.documentElement.dataset.theme = theme;
  const code = new URLSearchParams(location.hash.slice(1)).get("s");
  if (!(await findToken())) {
    notice("This page needs the whole link that phsafe explore printed in the terminal: it ends in #token=…");
    if (code) files.refused(code);
    return;
  }
  try { start = await ask("start"); } catch (error) { notice(error.message); return; }
  await restore();
  store.focus = { ...firstFocus(), table: start.tables[0].name };
  for (const part of [front, choices, grid, pins, results]) part.setUp(start);
  words.setUp();
  tour.setUp();
  listen();
  $("main").hidden = false;
  build();
  await evaluate();
  if (shared()) await files.openShared(code);
}

main();
