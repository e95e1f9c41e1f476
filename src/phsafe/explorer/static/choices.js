// Choices for the whole run: sensitivity mode, privacy definition, area, and δ.

import { ask } from "./api.js";
import { $, el, notice, segmented, select, show } from "./dom.js";
import { plainPin, store } from "./store.js";
import { mark } from "./words.js";

// Mode → its name, what it guarantees, and what it gives up.
const MODES = {
  published: ["As in 2020 (published)", "Protects one person, and also a change to a whole household.", "More noise than protecting one person needs."],
  tight: ["Tight", "The same loss for a person added or removed, with less noise.", "The loss for a changed record doubles, a whole household can be protected less, and the geography of addresses must be public."],
  "tight-bounded": ["Tight for a changed record (tight-bounded)", "The same loss for a changed record, with less noise; half the loss for a person added or removed.", "A whole household can be protected less, and the geography of addresses must be public."],
  structured: ["Structured", "As tight; lines that need nothing but the person’s own answers get far less noise and no truncation.", "As tight: the loss for a changed record can double, a whole household can be protected less, and the geography of addresses must be public."],
};
export const modeName = (mode) => MODES[mode][0];
let start;

export function setUp(catalog) { start = catalog; }

export function build() {
  const { scenario } = store;
  const delta = el("input", {
    id: "delta", "aria-label": "δ", autocomplete: "off", spellcheck: "false", value: scenario.delta, size: "8",
    oninput: (event) => store.change((s) => { s.delta = event.target.value; }, "delta"),
  });
  show($("#choices"),
    el("div", { class: "modes", role: "radiogroup", "aria-label": "Sensitivity mode" }, Object.entries(MODES).map(mode)),
    el("div", { id: "mode-warnings" }),
    el("div", { class: "form" },
      choice("Privacy definition", mark(scenario.privacy), segmented("privacy", [["zcdp", "zCDP (ρ)"], ["puredp", "Pure DP (ε)"]], scenario.privacy, convert, "Privacy definition")),
      choice("ε is stated at δ", mark("delta"), delta, el("div", { class: "problem", id: "delta-problem" })),
      start.standard.length ? area() : null));
}

function mode([key, [title, guarantees, gives]]) {
  const input = el("input", { type: "radio", name: "sensitivity", value: key, onchange: () => store.change((s) => { s.sensitivity = key; }, null, "all") });
  input.checked = store.scenario.sensitivity === key;
  return el("label", {}, input, el("span", {}, el("strong", {}, title), el("small", {}, el("b", {}, "Guarantees: "), guarantees, el("br"), el("b", {}, "Gives up: "), gives)));
}

export const choice = (label, why, ...nodes) => el("div", { class: "choice" }, el("span", {}, label, " ", why), ...nodes);

// Budgets are converted: read as ε, a ρ would mean a different amount of noise.
async function convert(privacy) {
  try {
    const answer = await ask("convert", { scenario: store.scenario, privacy });
    if (Object.keys(answer.problems).length) { notice("Correct the marked fields first; the privacy definition is unchanged."); build(); return; }
    store.change((s) => Object.assign(s, answer.scenario), null, "all");
    notice(answer.sentence, "calm");
  } catch (error) { notice(error.message); build(); }
}

function area() {
  const { states } = store.scenario;
  const pr = states.includes("72");
  const areas = [["us", "50 states and DC"], ["pr", "Puerto Rico"]];
  const custom = !pr && states.length !== 51;
  if (custom) areas.push(["own", `${states.length} selected state${states.length === 1 ? "" : "s"}`]);
  const all = start.levels.at(-1).regions.map(([code]) => code.slice(0, 2)).filter((code) => code !== "72");
  return choice("Area", null, select(areas, custom ? "own" : pr ? "pr" : "us", (value) => store.change((s) => {
    if (value === "own") return;
    s.states = value === "pr" ? ["72"] : all;
    store.pins = (value === "pr" ? start.pins_pr : start.pins).map((pin) => plainPin({ ...pin, people: "", units: "" }));
  }, null, "all"), "Area"));
}
