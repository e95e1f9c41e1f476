// Open, share and export scenarios.

import { ask, download, fetchFile } from "./api.js";
import { $, el, notice, show } from "./dom.js";
import { store } from "./store.js";

const dialog = () => $("#dialog");

export function openDialog(title, ...content) {
  show(dialog(), el("header", {}, el("h2", { id: "dialog-title" }, title), el("button", { "aria-label": "Close", onclick: () => dialog().close() }, "✕")), ...content);
  // A closed dialog is emptied; the popover of terms may be inside it and is moved out first.
  dialog().onclose = () => { document.body.append($("#word")); show(dialog()); };
  if (!dialog().open) dialog().showModal();
}

export const fileName = (ending) => `${store.scenario.name.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|-+$/g, "").slice(0, 60) || "scenario"}.${ending}`;
const endings = { config: "json", workbook: "xlsx" };
const packed = (scenarios = store.scenarios, active = store.active) => ({ format: "phsafe-scenarios", version: 1, active, scenarios, baseline: store.baselineScenario, pins: store.pins });

export async function exportAs(form) {
  $("#export").open = false;
  try {
    if (form === "scenarios") download(new Blob([JSON.stringify(packed(), null, 1)], { type: "application/json" }), fileName("scenario.json"));
    else download(await fetchFile(`export/${form}`, store.request()), fileName(endings[form]));
  } catch (error) { notice(error.message); }
}

// A link carries the compressed scenario after the #, so it never reaches a server.
async function pack(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// A small link can hold gigabytes of zeros. The program accepts no larger document either.
const MAX_CHARACTERS = 1e6;

async function unpack(code) {
  try {
    const bytes = Uint8Array.from(atob(code.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).pipeThrough(new TextDecoderStream());
    const reader = stream.getReader();
    for (let text = ""; ;) {
      const { done, value } = await reader.read();
      if (done) return text;
      text += value;
      if (text.length > MAX_CHARACTERS) { reader.cancel(); throw new Error("too large"); }
    }
  } catch { throw new Error("This link is broken or too large; its end may be missing. Your scenarios are unchanged."); }
}

export async function share() {
  const link = `${location.origin}/#s=${await pack(JSON.stringify(packed([store.scenario], 0)))}`;
  const field = el("input", { readonly: true, id: "link", class: "long", "aria-label": "Link", onfocus: (event) => event.target.select() });
  field.value = link;
  openDialog("Share this scenario", el("p", {}, "The link contains the whole scenario, its baseline and your groups. It opens in any copy of PHExplore: paste it under “Open”, or start PHExplore with it:"), el("p", {}, el("code", {}, "phsafe explore 'LINK'")),
    field, el("div", { class: "row" }, copyButton(link, field)), el("p", { class: "muted" }, "It contains no token, so it gives no one access to this page."));
  field.select();
}

const copyButton = (text, field) => el("button", { class: "main", onclick: async () => { await navigator.clipboard.writeText(text).catch(() => {}); field.select(); notice("Link copied.", "calm"); } }, "Copy the link");

// A shared link opened in a browser that has no access to this server's page.
export function refused(code) {
  const field = el("input", { readonly: true, id: "link", class: "long", "aria-label": "Link" });
  field.value = `${location.origin}/#s=${code}`;
  openDialog("This link contains a scenario", el("p", {}, "To see it, start PHExplore with this link, or paste it under “Open” in a page that is already running:"), el("p", {}, el("code", {}, "phsafe explore 'LINK'")), field, el("div", { class: "row" }, copyButton(field.value, field)));
}

async function accept(text, name) {
  const link = /[#&]s=([\w-]+)/.exec(text);
  const answer = await ask("open", { text: link ? await unpack(link[1]) : text, name });
  const baseline = answer.baseline && !answer.scenarios.concat(store.scenarios).some((each) => each.name === answer.baseline.name) ? [answer.baseline] : [];
  store.add([...baseline, ...answer.scenarios], answer.pins);
  if (answer.baseline) store.change(() => { store.baseline = store.scenarios.findLastIndex((each) => each.name === answer.baseline.name); }, null, "all");
}

export async function openShared(code) {
  try { await accept(`#s=${code}`, "link"); } catch (error) { notice(error.message); }
}

export function open() {
  const problem = el("p", { class: "problem", role: "alert", id: "open-problem" });
  const take = async (text, name) => {
    try { await accept(text, name); dialog().close(); notice("Opened.", "calm"); } catch (error) { problem.textContent = error.message; }
  };
  const file = el("input", { type: "file", id: "file", accept: ".json,.toml", "aria-label": "File", onchange: async () => { if (file.files[0]) await take(await file.files[0].text(), file.files[0].name); } });
  const pasted = el("textarea", { id: "paste", "aria-label": "Link or text", placeholder: "…or paste a shared link here" });
  openDialog("Open a scenario or a config", el("p", {}, "A scenario file, a config (JSON in the 2020 format, or TOML), or a shared link. It opens as a new scenario and leaves the others unchanged."),
    el("div", { class: "row" }, file), el("div", { class: "row" }, pasted),
    el("div", { class: "row" }, el("button", { class: "main", id: "take", onclick: () => take(pasted.value.trim(), "pasted") }, "Open")), problem);
}
