// The pinned groups: add by search, remove, and what the margins mean for each.

import { ask } from "./api.js";
import { $, chip, el, notice, show } from "./dom.js";
import { baselineName, shownChange } from "./front.js";
import { goTo } from "./grid.js";
import { tighten } from "./solve.js";
import { openDialog } from "./files.js";
import { pinId, plainPin, store } from "./store.js";
import { mark } from "./words.js";

const MOST = 12;
export const VERDICTS = { good: "reliable", rough: "rough", noise: "hardly more than noise" };
let start;

export function setUp(catalog) {
  start = catalog;
  const percent = (share) => `${100 * share} %`;
  show($("#pin-words-used"), `In nine of ten releases, the published number is in the range shown. Reliable: the margin ± is at most ${percent(start.verdicts.rough)} of the number. Rough: at most ${percent(start.verdicts.noise)}. Larger: hardly more than noise.`);
  show($("#pin-tools"), el("button", { id: "add-pin", onclick: search }, "+ Add a group"));
}

export const current = () => (store.finished && store.finished.pins) || store.numbers.pins;

export function render() {
  const { numbers } = store;
  const pins = current();
  // What the reader is typing into stays as it is.
  const busy = document.activeElement && document.activeElement.closest("#pin-list details");
  if (busy && busy.querySelector("input") && pins.length === document.querySelectorAll("#pin-list .pin").length) {
    pins.forEach((pin, i) => show(document.querySelectorAll("#pin-list .pin .says-it")[i], says(pin)));
  } else show($("#pin-list"), el("div", { class: "pin-grid" }, pins.map((pin, i) => card(pin, i))));
  const state = { "under way": "Finished margins are being computed…", unavailable: numbers.finished_note || "" }[store.finished ? "done" : numbers.finished];
  show($("#pin-tools"), state ? el("small", { id: "under-way", role: "status" }, `${state} `) : null, el("button", { id: "add-pin", onclick: search, disabled: pins.length >= MOST }, "+ Add a group"));
}

function says(pin) {
  if (pin.problem) return el("p", { class: "problem" }, pin.problem);
  const now = pin.finished || pin.measured;
  if (!now) return el("p", { class: "says noise" }, "not published");
  const before = pin.before && (pin.finished ? pin.before.finished : pin.before.measured);
  return [
    el("p", { class: `says ${now.verdict}` }, now.sentence), range(pin, now),
    el("p", {}, el("strong", {}, `± ${now.moe_text}`), `${pin.kind === "count" ? ` ${pin.unit}` : ""} now${pin.finished ? "" : " (noise alone)"}: ${VERDICTS[now.verdict]}`),
    baselineName() ? el("p", {}, before ? `± ${before.moe_text} in ${baselineName()} ` : `not published in ${baselineName()} `, chip(shownChange(pin))) : null,
    pin.finished && pin.measured ? el("small", {}, `Noise alone, before estimation: ± ${pin.measured.moe_text}. `) : null,
    pin.noise_and_truncation ? el("small", {}, `Truncation leaves out about ${pin.noise_and_truncation.dropped_text} people.`) : null];
}

// The interval on a scale from zero to twice the size.
function range(pin, now) {
  const size = now.moe / now.share;
  if (!(size > 0)) return null;
  const at = (x) => Math.max(0, Math.min(100, (50 * x) / size));
  const [low, high] = [at(size - now.moe), at(size + now.moe)];
  return el("div", { class: "range", "aria-hidden": "true" }, el("i", { class: now.verdict, "left%": low, "width%": Math.max(1, high - low) }), el("b", { "left%": 50 }));
}

function card(pin, i) {
  // An answer can be older than the list of groups.
  const mine = store.pins.find((each) => pinId(each) === pin.id) || {};
  const edit = (name, label, placeholder) => el("label", { class: "field" }, el("span", {}, label), el("input", {
    inputmode: "decimal", autocomplete: "off", value: mine[name] || "", placeholder, "aria-label": `${label}: ${pin.label}`,
    oninput: (event) => store.change(() => { store.pins.find((each) => pinId(each) === pin.id)[name] = event.target.value.trim(); }, `${pin.id} ${name}`, "focus"),
  }));
  const average = pin.kind === "average";
  const source = (pin.sources || [])[0];
  return el("section", { class: "pin", "aria-label": pin.label },
    el("header", {}, el("h3", {}, pin.iteration === "*" ? pin.region_label : `${pin.iteration_label}, ${pin.region_label}`), el("button", { class: "small", "aria-label": `Remove ${pin.label}`, title: "Remove", onclick: () => remove(pin.id) }, "✕")),
    el("p", { class: "muted" }, `${pin.title}: ${pin.line_label} `, el("small", {}, pin.table)),
    el("div", { class: "says-it" }, says(pin)),
    el("div", { class: "row" },
      pin.published && !pin.problem ? el("button", { class: "small", "aria-label": `Change this margin: ${pin.label}`, onclick: () => tighten(current()[i]) }, "Change this margin") : null,
      source ? el("button", { class: "small", "aria-label": `Show in Details: ${pin.label}`, onclick: () => goTo(source[0], source[1]) }, "Show in Details") : null,
      el("details", {}, el("summary", { class: "small", "aria-label": `Size and weight: ${pin.label}` }, "Size and weight"), el("div", { class: "form" },
        edit("people", average ? "people" : "people counted", pin.people), average ? edit("units", "households", pin.units) : null,
        edit("weight", "weight in the solver", "10"), mark("weight"),
        el("small", {}, "Sizes are rounded public figures (ACS 2024, and shares from synthetic data).")))));
}

function remove(id) {
  store.change(() => { store.pins = store.pins.filter((pin) => pinId(pin) !== id); }, null, "pins");
  notice("Removed from your groups.", "calm", el("button", { onclick: () => { store.undo(); notice(""); } }, "Undo"));
}

function search() {
  let latest = 0;
  const found = el("ul", { class: "found", id: "found" });
  const hint = el("p", { class: "muted", id: "found-hint", role: "status" });
  const look = async () => {
    const mine = ++latest;
    try {
      const answer = await ask("search", { words: input.value, states: store.scenario.states });
      if (mine !== latest) return;
      show(found, answer.found.map((pin) => el("li", {}, result(pin))));
      hint.textContent = answer.hint || (answer.more ? `${answer.more} more: add a word to narrow it down.` : "");
    } catch (error) { hint.textContent = error.message; }
  };
  const input = el("input", { id: "pin-words", type: "text", autocomplete: "off", placeholder: "for example: renters Vermont, Hispanic families, children Wyoming", "aria-label": "Words", maxlength: "120", oninput: look });
  openDialog("Add a group", el("p", {}, "Type a state, a race or ethnicity, and what is counted. You can add any line of any table, whether a count or an average."), input, hint, found);
  input.focus();
  look();
}

function result(pin) {
  const known = store.pins.some((each) => pinId(each) === pinId(pin));
  const add = () => {
    if (store.pins.length >= MOST) { notice(`At most ${MOST} groups fit here: remove one first.`); return; }
    $("#dialog").close();
    store.change(() => { store.pins.push(plainPin({ ...pin, people: "", units: "" })); }, null, "pins");
  };
  return [el("button", { disabled: known, onclick: add, "aria-label": `Add ${pin.label}` }, known ? "added" : "Add"), el("span", {}, pin.label, " ", el("small", {}, `${pin.table}, about ${pin.size_text} ${pin.unit}`))];
}
