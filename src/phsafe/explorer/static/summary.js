// The one-page summary for the minutes. The server writes it; the page shows it, prints it, or saves it.

import { download, fetchFile } from "./api.js";
import { $, el, notice, show } from "./dom.js";
import { fileName, openDialog } from "./files.js";
import { store } from "./store.js";

const FIELDS = [["decision", "Decision", "for example: adopt this scenario for the release"], ["reason", "Reason", "why, in a sentence or two"], ["who", "Who decided", "names or the committee"], ["date", "Date", ""]];

export function open() {
  $("#export").open = false;
  const minutes = (store.minutes = store.minutes || { decision: "", reason: "", who: "", date: new Date().toISOString().slice(0, 10) });
  const sheet = el("div", { id: "sheet", tabindex: "0", role: "region", "aria-label": "Summary" });
  let html = null;
  let waiting;
  const draw = async () => {
    try {
      html = await (await fetchFile("export/summary", { ...store.request(), minutes })).text();
      // Written by our own server, with everything typed escaped; scripts in it would not run, by the page's policy.
      // Its style is in the page already (summary.css), whose policy allows no style in the text.
      const page = new DOMParser().parseFromString(html.replace(/<style>[^]*?<\/style>/g, ""), "text/html");
      show(sheet, el("div", { class: "sheet" }, ...page.querySelector(".sheet").childNodes));
      show($("#paper"), sheet.firstChild.cloneNode(true)); // What is printed: a dialog would be cut off.
    } catch (error) { show(sheet, el("p", { class: "problem", role: "alert" }, error.message)); }
  };
  const field = ([name, label, placeholder]) => el("label", { class: "field" }, el("span", {}, label),
    el(name === "reason" ? "textarea" : "input", { id: `minutes-${name}`, type: name === "date" ? "date" : null, maxlength: "500", rows: name === "reason" ? "2" : null, placeholder, oninput: (event) => { minutes[name] = event.target.value; clearTimeout(waiting); waiting = setTimeout(draw, 300); } }));
  openDialog("Summary for the minutes", el("div", { class: "form minutes" }, FIELDS.map(field)),
    el("div", { class: "row" }, el("button", { class: "main", id: "print", onclick: () => print() }, "Print or save as PDF"),
      el("button", { id: "save-summary", onclick: async () => { await draw(); if (html) { download(new Blob([html], { type: "text/html" }), fileName("html")); notice("Saved.", "calm"); } } }, "Save as HTML")), sheet);
  $("#dialog").addEventListener("close", () => show($("#paper")), { once: true });
  for (const [name] of FIELDS) $(`#minutes-${name}`).value = minutes[name];
  draw();
}
