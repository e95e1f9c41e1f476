// The front of the page: the sentence, warnings, the baseline, the tiles, and what it means for a person.

import { $, chip, el, notice, select, show } from "./dom.js";
import { store } from "./store.js";
import { mark } from "./words.js";

let start;
let speaking;

export function setUp(catalog) { start = catalog; }

export const unit = () => (store.scenario.privacy === "zcdp" ? "ρ" : "ε");
export const baselineName = () => (store.numbers && store.numbers.baseline ? store.numbers.baseline.name.replace(/^2020 parameters/, "2020") : "");

export function render() {
  sentence();
  warnings();
  tiles();
  person();
}

function sentence() {
  const { numbers, finished } = store;
  const says = (finished && finished.sentence) || numbers.sentence;
  show($("#sentence"), el("p", { class: "cost" }, says.cost), says.groups.map((group) => el("p", {}, group)), el("p", {}, says.person));
  clearTimeout(speaking);
  speaking = setTimeout(() => { if ($("#spoken").textContent !== says.text) $("#spoken").textContent = says.text; }, 900);
}

// Choose the baseline. A custom catalog has no 2020 baseline.
export function against() {
  const options = [...(start.standard.length ? [["-1", start.baseline]] : [["-1", "nothing"]]), ...store.scenarios.map((scenario, i) => [String(i), scenario.name])];
  const choose = (value) => store.change(() => { store.baseline = Number(value); }, null, "all");
  show($("#against"), el("label", {}, "Compared with ", select(options, String(store.baseline), choose, "Compared with")), mark("baseline"),
    el("span", { class: "legend" }, el("span", { class: "chip better" }, "better"), el("span", { class: "chip worse" }, "worse"), el("span", { class: "chip same" }, "= same"), el("span", {}, "▲ larger ▼ smaller")));
}

function warnings() {
  const { numbers } = store;
  const listed = numbers.warnings.filter((warning) => warning.kind !== "mode" && warning.kind !== "definition");
  show($("#warnings"), listed.map(one));
  show($("#mode-warnings"), numbers.warnings.filter((warning) => !listed.includes(warning)).map(one));
}

function one(warning) {
  const apply = () => { store.change((s) => Object.assign(s, warning.fix.scenario), null, "all"); notice("Changed. Use Undo to revert it.", "calm"); };
  return el("p", { class: "warning" }, el("span", { "aria-hidden": "true" }, "⚠ "), warning.sentence, " ", warning.fix ? el("button", { onclick: apply }, warning.fix.label) : null);
}

function tiles() {
  const { totals, person: risks } = store.numbers;
  const pins = (store.finished && store.finished.pins) || store.numbers.pins;
  const change = totals.change || {};
  const tile = (id, label, key, value, below, delta) => el("div", { class: "kpi" }, el("span", { class: "label" }, el("span", {}, label), mark(key)), el("b", { id }, value), el("span", { class: "delta" }, chip(delta)), el("span", { class: "below" }, below));
  const state = (name) => pins.filter((pin) => shownChange(pin) && shownChange(pin).state === name).length;
  const groups = [[state("better"), "more accurate"], [state("worse"), "less accurate"], [pins.filter((pin) => !pin.published).length, "not published"], [state("same"), `as in ${baselineName()}`]].filter(([n]) => n);
  const epsilon = (text) => [`ε ${text} at δ ${totals.delta} `, mark("epsilon")];
  show($("#kpis"),
    tile("total-unbounded", `Privacy loss ${unit()}, person added or removed`, "unbounded", totals.unbounded, epsilon(totals.epsilon_text), change.unbounded),
    tile("total-bounded", `Privacy loss ${unit()}, record changed`, "bounded", totals.bounded, epsilon(totals.epsilon_bounded_text), change.bounded),
    tile("guesses", "Someone guesses right whether you were counted", "attacker", risks[0].guesses_text, `what your record says: ${risks[1].guesses_text}`, risks[0].change),
    el("div", { class: "kpi" }, el("span", { class: "label" }, "Groups you care about"), el("b", { id: "group-count" }, String(pins.length)),
      el("span", { class: "delta" }, groups.map(([n, text]) => el("span", { class: `chip ${{ "more accurate": "better", "less accurate": "worse", "not published": "worse" }[text] || "same"}` }, `${n} ${text}`)))));
}

// Margins are compared in kind: finished ones with finished ones, those of the noise alone with those of the noise.
export const shownChange = (pin) => pin.change && (pin.finished ? pin.change.finished : pin.change.measured);

function person() {
  const { person: risks, totals } = store.numbers;
  const questions = { unbounded: "Were you counted?", bounded: "What does your record say?" };
  show($("#person-says"), el("p", {}, "Someone who knows every record but yours, and starts with a coin flip:"), risks.map((risk) => {
    const meter = el("div", { class: "meter", role: "img", "aria-label": `${risk.guesses_text} right, where a coin flip is right 50 % of the time` }, el("i", { "width%": 100 * risk.guesses }), el("b"));
    return el("div", { class: "risk" }, el("strong", {}, questions[risk.neighbours], " ", mark(risk.neighbours)), meter,
      el("p", {}, el("strong", {}, `right at most about ${risk.guesses_text} of the time `), chip(risk.change)),
      el("small", {}, `With any other noise that has this loss, at most ${risk.any_noise_text}. `, totals.delta === "0" ? "" : `At worst ${risk.certainty_text} certain afterwards, except with probability δ = ${totals.delta} (ε = ${risk.epsilon_text}).`));
  }), el("p", { class: "scale", "aria-hidden": "true" }, el("span", {}, "never right"), el("span", {}, "coin flip"), el("span", {}, "always right")));
}
