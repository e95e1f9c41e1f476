// Search for a region, a group, a line, or several of them at once ("children in Wyoming"). A result is a button that
// chooses it.
const MOST_FOUND = 8;
// Words that readers use for those of the tables, and words that select nothing.
const SAME = { children: "under 18", kids: "under 18", minors: "under 18", adults: "18 over", people: "population", tenants: "renter", homeowners: "owner" };
const FILLERS = ["a", "and", "for", "in", "of", "or", "the", "with"];

function searchable() {
  const regions = Object.entries(data.regions).map(([key, name]) => ({
    text: name, also: data.tiles[key]?.[0] || "", kind: "region", pick: () => choose("tables", { region: key }) }));
  const groups = Object.entries(data.iterations).map(([code, name]) => ({
    text: name, also: code, kind: "race or ethnicity", pick: () => choose("tables", { group: code }) }));
  const lines = Object.entries(data.tables).flatMap(([name, table]) => table.lines.map(([line, , label], i) => ({
    text: `${name} ${label}`, also: table.title, kind: table.title, line: true, total: i === 0, average: table.average, pick: () => showLine(name, line) })));
  return [...regions, ...groups, ...lines];
}

function showLine(name, line) {
  choose("tables", { table: "", figure: `${name} ${line}` });
  const row = $(`[data-table="${name}"] tr[data-line="${line}"]`);
  for (const other of $$("tr.found")) other.classList.remove("found");
  row.classList.add("found");
  row.scrollIntoView({ block: "center" });
}

const wordsOf = (text) => text.toLowerCase().split(/[^\p{L}\p{N}*]+/u).filter(Boolean);
// What was typed, in the words of the tables; plurals match as well.
const wanted = (typed) => wordsOf(typed).flatMap((word) => wordsOf(SAME[word] || (word.length > 3 ? word.replace(/s$/, "") : word)));
const matchesOf = ({ text, also }, words) => words.filter((word) => wordsOf(`${text} ${also}`).some((own) => own.startsWith(word)));

// Those come first whose code is the text, whose name begins with it, then names with every word and totals of tables;
// counts before averages.
function inOrder(entries, words) {
  const whole = words.join(" "), rank = ({ text, also, total, average }) => (average ? 0.5 : 0)
    + (also.toLowerCase() === whole ? 0 : text.toLowerCase().startsWith(whole) ? 1
      : total || matchesOf({ text, also: "" }, words).length === words.length ? 2 : 3);
  return entries.sort((a, b) => rank(a) - rank(b));
}

// Entries that contain every word, or if there are none, combinations of them.
function matching(entries, typed) {
  const words = wanted(typed);
  const has = ({ text, also }) => words.every((word) => `${text} ${also}`.toLowerCase().includes(word));
  if (!words.length) return [];
  const found = inOrder(entries.filter(has), words);
  return found.length ? found : combined(entries, words.filter((word) => !FILLERS.includes(word)));
}

// Region, group and line together: the regions, then the groups, that match most words, and lines with all others.
function combined(entries, words) {
  const parts = [];
  for (const kind of ["region", "race or ethnicity"]) {
    const known = entries.filter((entry) => entry.kind === kind).map((entry) => ({ ...entry, matches: matchesOf(entry, words) }));
    const most = Math.max(...known.map(({ matches }) => matches.length));
    const best = most ? known.filter(({ matches }) => matches.length === most) : [];
    parts.push(best.length ? best : [null]);
    words = words.filter((word) => !best.some(({ matches }) => matches.includes(word)));
  }
  const lines = entries.filter((entry) => entry.line && matchesOf(entry, words).length === words.length);
  parts.push(words.length ? inOrder(lines, words) : [null]);
  return parts.reduce((all, part) => all.flatMap((chosen) => part.map((one) => [...chosen, one])), [[]])
    .map((all) => all.filter(Boolean))
    .filter((all) => all.length > 1)
    .map((all) => ({ text: all.map(({ text }) => text).join(", "), kind: all.at(-1).line ? all.at(-1).kind : "",
      pick: () => { for (const { pick } of all) pick(); } }));
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
    if (field.value && !found.length) list.append(make("li", {}, "Nothing found. Search for a region, a race or ethnicity, a line of a table, or several of them."));
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
