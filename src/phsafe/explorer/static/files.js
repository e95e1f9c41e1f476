// Open, share, export and compare scenarios.

import { ask, download, fetchFile } from "./api.js";
import { $, el, notice, show } from "./dom.js";
import { store } from "./store.js";

const dialog = () => $("#dialog");

export function openDialog(title, ...content) {
  show(dialog(), el("header", {}, el("h2", { id: "dialog-title" }, title), el("button", { "aria-label": "Close", onclick: () => dialog().close() }, "✕")), ...content);
  if (!dialog().open) dialog().showModal();
}

const fileName = (ending) => `${store.scenario.name.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|-+$/g, "").slice(0, 60) || "scenario"}.${ending}`;
const endings = { config: "json", workbook: "xlsx", summary: "html" };
const packed = () => ({ format: "phsafe-scenarios", version: 1, active: store.active, scenarios: store.scenarios });

export async function exportAs(form) {
  $("#export").open = false;
  try {
    if (form === "scenarios") {
      download(new Blob([JSON.stringify(packed(), null, 1)], { type: "application/json" }), fileName("scenario.json"));
    } else {
      download(await fetchFile(`export/${form}`, { scenario: store.scenario }), fileName(endings[form]));
    }
  } catch (error) { notice(error.message); }
}

// A link carries the compressed scenario after the #, so it never reaches a server.
async function pack(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export async function unpack(code) {
  try {
    const bytes = Uint8Array.from(atob(code.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return await new Response(stream).text();
  } catch { throw new Error("This link is broken; its end may be missing. Your scenarios are unchanged."); }
}

export async function share() {
  const link = `${location.origin}/#s=${await pack(JSON.stringify({ ...packed(), active: 0, scenarios: [store.scenario] }))}`;
  const field = el("input", { readonly: true, id: "link", "aria-label": "Link", onfocus: (event) => event.target.select() });
  field.value = link;
  field.style.width = "100%";
  openDialog("Share this scenario", el("p", {}, "The link contains the whole scenario. To use it, paste it under “Open” in PHExplore, or open it in a browser where PHExplore is running. It contains no token, so it gives no one access to this page."),
    field, el("div", { class: "row" }, el("button", { class: "main", onclick: async () => { await navigator.clipboard.writeText(link).catch(() => {}); field.select(); notice("Link copied.", true); } }, "Copy")));
  field.select();
}

async function accept(text, name) {
  const link = /[#&]s=([\w-]+)/.exec(text);
  const answer = await ask("open", { text: link ? await unpack(link[1]) : text, name });
  store.add(answer.scenarios);
}

export async function openShared(code) {
  try { await accept(`#s=${code}`, "link"); } catch (error) { notice(error.message); }
}

export function open() {
  const problem = el("p", { class: "problem", role: "alert", id: "open-problem" });
  const take = async (text, name) => {
    try { await accept(text, name); dialog().close(); notice("Opened.", true); } catch (error) { problem.textContent = error.message; }
  };
  const file = el("input", { type: "file", id: "file", accept: ".json,.toml", "aria-label": "File", onchange: async () => { if (file.files[0]) await take(await file.files[0].text(), file.files[0].name); } });
  const pasted = el("textarea", { id: "paste", "aria-label": "Link or text", placeholder: "…or paste a shared link here" });
  openDialog("Open a scenario or a config", el("p", {}, "A scenario file, a config (JSON in the 2020 format, or TOML), or a shared link. It opens as a new scenario and leaves the others unchanged."),
    el("div", { class: "row" }, file), el("div", { class: "row" }, pasted),
    el("div", { class: "row" }, el("button", { class: "main", id: "take", onclick: () => take(pasted.value.trim(), "pasted") }, "Open")), problem);
}

export async function compare(start) {
  let columns;
  try { ({ columns } = await ask("compare", { scenarios: store.scenarios })); } catch (error) { notice(error.message); return; }
  const good = columns.filter((column) => column.totals);
  if (!good.length) { notice("No scenario has valid numbers yet."); return; }
  const base = good[0];
  const line = (label, value, number) => el("tr", {}, el("td", {}, label), good.map((column) => {
    const [now, then] = number ? [number(column), number(base)] : [0, 0];
    const state = column === base || !(now > 0) || !(then > 0) || Math.abs(now - then) < 5e-4 * then ? "" : now < then ? "better" : "worse";
    const change = state ? ` (${now > then ? "+" : "−"}${Math.abs(100 * (now / then - 1)).toFixed(1)} %)` : "";
    return el("td", { class: state }, `${value(column)}${change}`);
  }));
  const part = (title) => el("tr", { class: "part" }, el("td", { colspan: good.length + 1 }, title));
  const label = new Map(start.levels.map((level) => [level.key, level.label]));
  const rows = start.tabulations.flatMap((t) => t.levels.map((key) => {
    const name = `${t.name} ${key}`;
    if (!good.some((column) => column.rows[name])) return null;
    return line(`${t.name}, ${label.get(key)}`, (c) => (c.rows[name] ? `± ${c.rows[name].moe_text}  ·  ${c.rows[name].budget}` : "–"), (c) => (c.rows[name] ? c.rows[name].moe : 0));
  }));
  const left = columns.length - good.length;
  openDialog("Scenarios side by side", left ? el("p", { class: "problem" }, `Not shown: ${left} scenario${left > 1 ? "s" : ""} with invalid fields.`) : null,
    el("div", { class: "scroll" }, el("table", { class: "plain", id: "comparison" },
      el("thead", {}, el("tr", {}, el("th", {}, ""), good.map((c) => el("th", {}, c.name)))),
      el("tbody", {}, part("Privacy"), line("sensitivity", (c) => `${c.sensitivity}, ${c.privacy}`),
        line("loss, unbounded", (c) => c.totals.unbounded, (c) => Number(c.totals.unbounded)), line("loss, bounded", (c) => c.totals.bounded, (c) => Number(c.totals.bounded)),
        line("ε, unbounded", (c) => c.totals.epsilon_text, (c) => c.totals.epsilon), line("ε, bounded", (c) => c.totals.epsilon_bounded_text, (c) => c.totals.epsilon_bounded),
        line("attacker is right, bounded", (c) => c.person[1].guesses_text, (c) => c.person[1].guesses),
        line("tight accounting, unbounded", (c) => c.totals.tight_unbounded, (c) => Number(c.totals.tight_unbounded)),
        part("Thresholds"), ...start.tabulations.filter((t) => t.persons).map((t) => line(`τ of ${t.name}`, (c) => String(c.tau[t.name]))),
        part("Margin of error · budget"), ...rows))));
}
