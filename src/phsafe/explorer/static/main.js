// Start the page. On every change, fetch the new numbers from the server and show them.

import { ask, findToken } from "./api.js";
import { $, el, notice, show } from "./dom.js";
import * as files from "./files.js";
import * as grid from "./grid.js";
import * as results from "./results.js";
import { store } from "./store.js";

let start;
let running = null;

async function evaluate() {
  const since = performance.now();
  if (running) running.abort();
  const mine = (running = new AbortController());
  document.documentElement.dataset.busy = "yes";
  try {
    const numbers = await ask("evaluate", { scenario: store.scenario, focus: store.focus }, mine.signal);
    if (mine !== running) return;
    store.problems = numbers.problems;
    const bad = Object.keys(numbers.problems).length > 0;
    if (!bad) store.numbers = numbers;
    document.body.classList.toggle("stale", bad);
    notice(bad ? `The numbers shown are the last valid ones: ${numbers.problems.scenario || numbers.problems.entries || "correct the marked field."}` : "");
    grid.refresh();
    if (!bad) results.render();
    // For benchmarks: milliseconds from the change to the new numbers.
    document.documentElement.dataset.latency = (performance.now() - since).toFixed(1);
    document.documentElement.dataset.settled = String(Number(document.documentElement.dataset.settled || 0) + 1);
  } catch (error) {
    if (error.name !== "AbortError") notice(error.message);
  } finally {
    if (mine === running) document.documentElement.dataset.busy = "no";
  }
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

function listen() {
  store.listen((what) => {
    if (what === "all") { tabs(); grid.build(); }
    if (what === "name") return;
    evaluate();
  });
  $("#undo").onclick = () => store.undo();
  $("#redo").onclick = () => store.redo();
  $("#standard").onclick = () => {
    const pr = store.scenario.states.includes("72");
    store.add([structuredClone(start.standard[pr ? 1 : 0])]);
  };
  $("#standard").hidden = !start.standard.length;
  $("#compare").onclick = () => files.compare(start);
  $("#open").onclick = files.open;
  $("#share").onclick = files.share;
  for (const button of document.querySelectorAll("[data-export]")) button.onclick = () => files.exportAs(button.dataset.export);
  $("#theme").onclick = () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("phsafe-theme", document.documentElement.dataset.theme);
  };
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
    event.preventDefault();
    if (event.shiftKey) store.redo(); else store.undo();
  });
  document.addEventListener("click", (event) => { if (!$("#export").contains(event.target)) $("#export").open = false; });
  addEventListener("hashchange", shared);
}

async function shared() {
  const code = new URLSearchParams(location.hash.slice(1)).get("s");
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  await files.openShared(code);
}

async function main() {
  const theme = localStorage.getItem("phsafe-theme");
  if (theme) document.documentElement.dataset.theme = theme;
  const code = new URLSearchParams(location.hash.slice(1)).get("s");
  if (!(await findToken())) {
    notice("This page needs the whole link that phsafe explore printed in the terminal: it ends in #token=…");
    return;
  }
  try { start = await ask("start"); } catch (error) { notice(error.message); return; }
  store.scenarios = start.scenarios;
  try {
    const kept = store.kept();
    if (kept) {
      const { scenarios, active } = JSON.parse(kept);
      const answer = await ask("open", { text: JSON.stringify({ scenarios }), name: "kept" });
      Object.assign(store, { scenarios: answer.scenarios, active: Math.min(active || 0, answer.scenarios.length - 1) });
    }
  } catch { /* the stored scenarios don't fit this catalog: start afresh */ }
  const [first] = start.tabulations;
  const fit = start.groups["56 E"] && start.levels.some((level) => level.regions.some(([code_]) => code_ === "56"));
  store.focus = { tabulation: null, level: null, table: start.tables[0].name, region: fit ? "56" : start.levels[0].regions[0][0], iteration: fit ? "E" : start.levels[0].groups[0][0] };
  store.focus.tabulation = first.name;
  store.focus.level = first.levels.find((key) => store.scenario.entries[first.name][key].on) || first.levels[0];
  grid.setUp(start);
  results.setUp(start);
  listen();
  $("main").hidden = false;
  tabs();
  grid.build();
  await evaluate();
  if (code) { history.replaceState(null, "", location.pathname); await files.openShared(code); }
}

main();
