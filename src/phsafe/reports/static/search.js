// Search for a region, a group or a line. A result is a button that chooses it.
const MOST_FOUND = 8;

function searchable() {
  const regions = Object.entries(data.regions).map(([key, name]) => ({
    text: name, also: data.tiles[key]?.[0] || "", kind: "region", pick: () => choose("tables", { region: key }) }));
  const groups = Object.entries(data.iterations).map(([code, name]) => ({
    text: name, also: code, kind: "race or ethnicity", pick: () => choose("tables", { group: code }) }));
  const lines = Object.entries(data.tables).flatMap(([name, table]) => table.lines.map(([line, , label]) => ({
    text: `${name} ${label}`, also: table.title, kind: "line", pick: () => showLine(name, line) })));
  return [...regions, ...groups, ...lines];
}

function showLine(name, line) {
  choose("tables", { table: "", figure: `${name} ${line}` });
  const row = $(`[data-table="${name}"] tr[data-line="${line}"]`);
  for (const other of $$("tr.found")) other.classList.remove("found");
  row.classList.add("found");
  row.scrollIntoView({ block: "center" });
}

// Entries that contain every word; those whose name begins with the text, or whose code it is, come first.
function matching(entries, typed) {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean), whole = words.join(" ");
  const has = ({ text, also }) => words.every((word) => `${text} ${also}`.toLowerCase().includes(word));
  const rank = ({ text, also }) => (also.toLowerCase() === whole ? 0 : text.toLowerCase().startsWith(whole) ? 1 : 2);
  return words.length ? entries.filter(has).sort((a, b) => rank(a) - rank(b)) : [];
}

function startSearch() {
  const field = $("#search"), list = $("#found"), entries = searchable();
  const close = () => { list.hidden = true; };
  field.addEventListener("input", () => {
    const found = matching(entries, field.value).slice(0, MOST_FOUND);
    list.replaceChildren(...found.map(({ text, kind, pick }) => {
      const button = make("button", { type: "button" }, text, " ", make("small", {}, kind));
      button.addEventListener("click", () => { field.value = ""; close(); pick(); });
      return make("li", {}, button);
    }));
    if (field.value && !found.length) list.append(make("li", {}, "Nothing found. Search for one thing at a time: a region, a race or ethnicity, or a line."));
    list.hidden = !field.value;
    $("#found-count").textContent = field.value ? `${found.length} result${found.length === 1 ? "" : "s"}` : "";
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (event.key === "Enter") { event.preventDefault(); $("button", list)?.click(); }
    if (event.key === "ArrowDown") { event.preventDefault(); $("button", list)?.focus(); }
  });
  document.addEventListener("click", (event) => { if (!event.target.closest(".search")) close(); });
}
