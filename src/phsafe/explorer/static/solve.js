// The solver: split a total, or meet a margin. It shows who wins and who loses before anything is applied.

import { ask } from "./api.js";
import { choice } from "./choices.js";
import { $, chip, el, notice, segmented, select, show } from "./dom.js";
import { openDialog } from "./files.js";
import { shownChange, unit } from "./front.js";
import { VERDICTS } from "./pins.js";
import { pinId, store } from "./store.js";
import { mark, word } from "./words.js";

const set = (name) => (value) => store.change(() => { store.solver[name] = value; }, `solver ${name}`, "solver");

export function build() {
  const { solver } = store;
  const total = el("input", { id: "total", "aria-label": "Total to split", inputmode: "decimal", autocomplete: "off", value: solver.total, oninput: () => { set("total")(total.value.trim()); clear(); } });
  const floor = el("input", { type: "checkbox", id: "floor", onchange: () => set("floor")(floor.checked ? "today" : "none") });
  floor.checked = solver.floor === "today";
  show($("#solve"),
    el("label", { class: "field" }, el("span", {}, `Total privacy loss ${unit()} `), total),
    choice("for one person", mark(solver.neighbours), segmented("neighbours", [["unbounded", "added or removed"], ["bounded", "changed"]], solver.neighbours, set("neighbours"), "The total is the loss for one person")),
    choice("What matters", mark("weight"), select([["pins", "the groups you care about"], ["equal", "all levels equally"], ["cells", "all published cells equally"]], solver.weights, set("weights"), "What matters")),
    choice("Margins", mark("finished"), select([["measured", "of the noise"], ["finished", "finished, after estimation"]], solver.aim, set("aim"), "Margins")),
    el("label", { class: "tick" }, floor, "No margin larger than now", mark("floor")),
    el("details", { class: "targets" }, el("summary", {}, "Limits for individual groups"), el("div", { id: "targets" })),
    el("p", { class: "muted", id: "locked" }), el("div", { class: "row" }, el("button", { class: "main", id: "preview" }, "Preview"), el("small", {}, "Shows who wins and who loses. Nothing is changed yet.")),
    el("p", { class: "problem", id: "total-problem", role: "alert" }));
  $("#solve").onsubmit = (event) => { event.preventDefault(); preview({ ...store.solver, total: store.solver.total || total.placeholder }, fail); };
}

// After every evaluation: the current total as a suggestion, the number of locks, and a limit for each pinned group.
export function refresh() {
  const { numbers, scenario, solver } = store;
  $("#total").placeholder = numbers.totals[solver.neighbours];
  const locked = Object.values(scenario.entries).flatMap((levels) => Object.values(levels)).filter((entry) => entry.on && entry.locked).length;
  show($("#locked"), locked ? `${locked} locked budget${locked === 1 ? "" : "s"} will be kept. ` : "Nothing is locked: lock fields, rows or columns under Details. ", mark("lock"));
  if (document.activeElement && document.activeElement.closest("#targets")) return;
  show($("#targets"), numbers.pins.filter((pin) => pin.published).map((pin) => el("label", {}, el("span", {}, `${pin.label}, now ± ${(pin.measured || {}).moe_text}`), "at most ± ",
    el("input", { inputmode: "decimal", autocomplete: "off", size: "7", "aria-label": `Limit for ${pin.label}`, value: solver.targets[pin.id] || "", "data-target": pin.id,
      oninput: (event) => store.change(() => { solver.targets[pin.id] = event.target.value.trim(); }, `target ${pin.id}`, "solver") }), el("span", { class: "problem", "data-target-problem": pin.id }))));
}

function clear() {
  $("#total").setAttribute("aria-invalid", "false");
  for (const node of [$("#total-problem"), ...document.querySelectorAll("[data-target-problem]")]) node.textContent = "";
}

function fail(problems) {
  const fields = Object.keys(problems);
  $("#total").setAttribute("aria-invalid", String("total" in problems));
  const others = fields.filter((path) => path !== "total" && !path.startsWith("targets."));
  $("#total-problem").textContent = problems.total || (others.length ? `Correct this first: ${problems[others[0]]}` : "");
  for (const path of fields.filter((each) => each.startsWith("targets."))) {
    const node = [...document.querySelectorAll("[data-target-problem]")].find((each) => each.dataset.targetProblem === path.slice(8));
    if (node) { node.closest("details").open = true; node.textContent = problems[path]; }
  }
}

const wanted = (targets) => Object.fromEntries(Object.entries(targets).filter(([id, value]) => value && store.pins.some((pin) => pinId(pin) === id)));

async function preview(settings, failed) {
  const button = $("#preview");
  button.disabled = true;
  button.textContent = "Working…";
  const scenario = structuredClone(store.scenario);
  try {
    const answer = await ask("solve", { ...store.request(), scenario, ...settings, targets: wanted(settings.targets) });
    if (Object.keys(answer.problems).length) { failed(answer.problems); return; }
    clear();
    offer(answer);
  } catch (error) { failed({ total: error.message }); } finally { button.disabled = false; button.textContent = "Preview"; }
}

function offer({ scenario, preview: found, pins }) {
  const apply = () => {
    $("#dialog").close();
    store.change((s) => Object.assign(s, scenario, { name: s.name }), null, "all");
    notice("Applied.", "calm", el("button", { onclick: () => { store.undo(); notice(""); } }, "Undo"));
  };
  openDialog("Who wins, who loses", el("p", { class: "cost" }, found.sentence),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Preview" },
      pins && pins.length ? groups(pins) : null,
      list("More accurate", found.winners), list("Less accurate", found.losers), found.same ? el("p", { class: "muted" }, `${found.same} level${found.same === 1 ? " stays as it is" : "s stay as they are"}.`) : null),
    el("div", { class: "row" }, el("button", { class: "main", id: "apply", onclick: apply }, "Apply"), el("button", { onclick: () => $("#dialog").close() }, "Keep what I have")));
}

function groups(pins) {
  const margin = (pin, of) => { const found = of && (pin.finished ? of.finished : of.measured); return found ? `± ${found.moe_text}` : "not published"; };
  return el("table", { class: "plain stacked", id: "preview-groups" }, el("caption", {}, "Groups you care about"),
    el("thead", {}, el("tr", {}, ["Group", "before", "after", "change", "reliability after"].map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, pins.map((pin) => el("tr", {}, el("td", { class: "wrap" }, pin.label), el("td", {}, margin(pin, pin.before)), el("td", {}, margin(pin, pin)), el("td", {}, chip(shownChange(pin))),
      el("td", {}, (pin.finished || pin.measured) ? VERDICTS[(pin.finished || pin.measured).verdict] : "–")))));
}

function list(title, items) {
  if (!items.length) return el("p", { class: "muted" }, `${title}: none.`);
  return el("details", { open: items.length <= 6 }, el("summary", {}, `${title}: ${items.length} level${items.length === 1 ? "" : "s"}`), el("table", { class: "plain stacked" },
    el("thead", {}, el("tr", {}, ["Table and level", "margin before", "after", "change", `${unit()} before`, "after"].map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, items.map((item) => el("tr", {}, el("td", { class: "wrap" }, item.label, " ", el("small", {}, item.tabulation)), el("td", {}, `± ${item.moe_before_text}`), el("td", {}, `± ${item.moe_text}`), el("td", {}, chip(item.change)), el("td", {}, item.budget_before), el("td", {}, item.budget))))));
}

// Ask for a margin of one group. All other levels keep their budgets, and the total changes accordingly.
export function tighten(pin) {
  const now = pin.finished || pin.measured;
  const problem = el("p", { class: "problem", role: "alert", id: "margin-problem" });
  const state = el("p", { role: "status" });
  const input = el("input", { id: "margin", inputmode: "decimal", autocomplete: "off", size: "8", "aria-label": "Margin of error, at most", value: now.moe_text.replaceAll(",", "") });
  const go = async (event) => {
    event.preventDefault();
    problem.textContent = "";
    state.textContent = "Working…";
    const settings = { total: "", neighbours: "unbounded", weights: "pins", floor: "none", aim: pin.finished ? "finished" : "measured", targets: { [pin.id]: input.value.trim() } };
    await preview(settings, (problems) => { problem.textContent = Object.values(problems)[0]; });
    state.textContent = "";
  };
  openDialog("Change this margin", el("p", {}, pin.label), el("p", {}, `Now: ${now.sentence} (± ${now.moe_text}).`),
    el("form", { class: "row", onsubmit: go }, el("label", {}, "At most ± ", input, ` ${pin.kind === "average" ? pin.unit : "people"} `), el("button", { class: "main" }, "Preview")),
    el("p", { class: "muted" }, "A smaller margin costs more of the ", word("loss", "privacy loss"), ". Other levels keep their budgets."), state, problem);
  input.select();
}
