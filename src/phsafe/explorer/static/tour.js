// A one-minute tour: it points at one part of the page after another.

import { $, el, show } from "./dom.js";

const STEPS = [
  ["#front", "What it comes to", "These sentences state what the current choice costs, what it gives, and what it means for one person. They are updated with every change."],
  ["#kpis", "Compared with 2020", "Each number shows how it differs from 2020, or from one of your own scenarios, chosen under “Compared with”. Tap any ? for an explanation."],
  ["#pins", "Groups you care about", "These groups stay in view while you work: how large they are, and how far off their published numbers may be. Add or remove groups as you like."],
  ["#person", "One person", "How often someone who knows everyone else’s answers would guess right about you. 50 in 100 is a coin flip."],
  ["#change", "Change something", "Split a total, or choose how noise is computed. You see who wins and who loses before anything is applied, and Undo reverts any step."],
  ["#details", "Details", "Every table and level, with its budget or its margin of error: type either one."],
  ["#export", "Export", "A one-page summary for the minutes, the config for the release, the Excel workbook, or a link with the whole scenario."],
];

let at = 0;
let back = null;

export function begin() {
  back = document.activeElement;
  at = 0;
  $("#tour").hidden = false;
  step();
}

function end() {
  $("#tour").hidden = true;
  point(null);
  if (back) back.focus();
}

function point(selector) {
  for (const node of document.querySelectorAll(".pointed")) node.classList.remove("pointed");
  if (!selector) return;
  const node = $(selector);
  node.classList.add("pointed");
  node.scrollIntoView({ block: node.offsetHeight > innerHeight / 2 ? "start" : "center" });
}

function step() {
  const [selector, title, text] = STEPS[at];
  const last = at === STEPS.length - 1;
  const go = (by) => () => { at += by; step(); };
  const next = el("button", { class: "main", onclick: last ? end : go(1) }, last ? "Done" : "Next");
  show($("#tour"), el("h2", { id: "tour-title" }, `${at + 1} of ${STEPS.length}: ${title}`), el("p", {}, text),
    el("div", { class: "row" }, at ? el("button", { onclick: go(-1) }, "Back") : null, next, el("button", { onclick: end }, "End the tour")));
  point(selector);
  next.focus({ preventScroll: true });
}

export function setUp() {
  $("#start-tour").onclick = begin;
  $("#tour").addEventListener("keydown", (event) => { if (event.key === "Escape") end(); });
}
