// Starts the page: restores the choices, shows everything, and reacts to the reader.
const SHOW = { tables: showTables, compare: showComparison, add: showSum, map: showCharts };
const forms = $$("form.choose");

function showEverything() {
  for (const form of forms) SHOW[form.dataset.section]();
}

for (const part of $$(".next")) part.hidden = false;
for (const form of forms) {
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", (event) => {
    if (event.target.id === "search") return;
    writeAddress(form.dataset.section);
    if (event.target.name === "digits") showEverything();
    else SHOW[form.dataset.section]();
  });
}

function goToAddress() {
  const section = document.getElementById(readAddress());
  showEverything();
  if (!section) return;
  section.scrollIntoView();
  writeAddress(section.id);
}

$("#compare-this")?.addEventListener("click", () => {
  // With the same group in another region, if there is one.
  const region = chosen("region"), group = chosen("group");
  const second = [chosen("second"), preset(control("first"))].find((other) => other !== region);
  choose("compare", { first: region, "first-group": group, "compare-table": chosen("table"), ...(second && { second, "second-group": group }) });
  $("#compare").scrollIntoView();
});
addTableDownloads();
startSearch();
isNarrow.addEventListener("change", showEverything);
window.addEventListener("hashchange", goToAddress);
goToAddress();

const copy = $("#copy-citation");
copy.hidden = !navigator.clipboard;
copy.addEventListener("click", async () => {
  await navigator.clipboard.writeText($("#citation").textContent);
  copy.textContent = "Copied";
});

const theme = $("#theme"), root = document.documentElement;
theme.hidden = false;
theme.addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

// Highlight the section in view in the navigation bar.
const links = new Map($$("nav a").map((link) => [link.hash.slice(1), link]));
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    for (const link of links.values()) link.removeAttribute("aria-current");
    links.get(entry.target.id)?.setAttribute("aria-current", "true");
  }
}, { rootMargin: "-20% 0px -70% 0px" });
for (const section of $$("main > section")) seen.observe(section);
