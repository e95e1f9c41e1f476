// Downloads, made in the browser from the data in the page. Tables have the columns of the files in `tables/`.
const COLUMNS = ["REGION_TYPE", "REGION_ID", "REGION", "ITERATION_CODE", "RACE_ETHNICITY", "CELL", "LABEL", "ESTIMATE",
  "LOWER_90", "UPPER_90", "STD_ERROR", "NOTE"];

// A number as in the files: averages and standard errors always have decimals.
const exact = (v, isDecimal) => (isDecimal && Number.isInteger(v) ? `${v}.0` : String(v));

// The rows of a table for some groups (all by default), as in its file; `only` is the number of one line.
function tableRows(name, keys, only = null) {
  const table = data.tables[name], rows = [];
  for (const [key, cells] of Object.entries(table.groups)) {
    if (keys && !keys.includes(key)) continue;
    const [type, code, iteration] = key.split(" ");
    cells.forEach((cell, i) => {
      const [line, label] = table.lines[i];
      if (!cell || (only !== null && only !== line)) return;
      rows.push([type, code, data.regions[`${type} ${code}`], iteration, data.iterations[iteration], String(line), label,
        ...cell.map((v, j) => exact(v, table.average || j === 3)), isWide(cell) ? data.flag : ""]);
    });
  }
  return { columns: COLUMNS, rows, isText: (i) => i < 5 || i === 6 || i === 11 };
}

const quoted = (text) => (/[",\r\n]/.test(text) || text === "" ? `"${text.replaceAll('"', '""')}"` : text);
const csvText = ({ columns, rows }) => [columns, ...rows].map((row) => `${row.map(quoted).join(",")}\n`).join("");

function save(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

const saveCsv = (name, content) => save(`${name}.csv`, new Blob([csvText(content)], { type: "text/csv" }));

async function saveExcel(name, title, { columns, rows, isText }) {
  const cell = (text, i) => (isText(i) || !Number.isSafeInteger(Math.trunc(Number(text)))
    ? { value: text, type: String } : { value: Number(text), type: Number });
  const head = columns.map((text) => ({ value: text, type: String, fontWeight: "bold" }));
  const about = [data.title, title, data.citation, `Release ${data.release}`,
    "Estimates with 90 % intervals. Random noise protects the people they describe."];
  const book = writeXlsxFile([
    { sheet: "Data", data: [head, ...rows.map((row) => row.map(cell))], stickyRowsCount: 1,
      columns: columns.map((_, i) => ({ width: isText(i) ? 24 : 14 })) },
    { sheet: "About", data: about.map((text) => [{ value: text, type: String }]), columns: [{ width: 100 }] },
  ]);
  save(`${name}.xlsx`, await book.toBlob());
}

// Text as lines of SVG that fit a width; letters are about half as wide as they are high.
function lines(text, width, top, size) {
  const most = Math.floor(width / (size * 0.55)), found = [""];
  for (const word of text.split(" ")) {
    if (found.at(-1) && found.at(-1).length + word.length >= most) found.push("");
    found.push(`${found.pop()} ${word}`.trim());
  }
  const step = size + 5;
  return { height: found.length * step, parts: found.map((line, i) =>
    draw("text", { x: 4, y: top + i * step + size, "font-size": `${size}px`, fill: "#15202e" }, line)) };
}

// A copy of a chart that looks the same without the page's style sheet, in light colours, with title and source.
function standalone(chart, title) {
  const root = document.documentElement, theme = root.dataset.theme;
  root.dataset.theme = "light";
  const [, , width, height] = chart.getAttribute("viewBox").split(" ").map(Number);
  const copy = chart.cloneNode(true), head = lines(title, width, 6, 15), below = head.height + 12 + height;
  const foot = lines(data.citation, width, below + 8, 10), tall = below + foot.height + 12;
  const shown = [chart, ...$$("*", chart)];
  [copy, ...$$("*", copy)].forEach((node, i) => {
    const style = getComputedStyle(shown[i]);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "text-anchor"]) {
      node.setAttribute(name, style.getPropertyValue(name));
    }
    node.removeAttribute("class");
  });
  const body = draw("g", { transform: `translate(0 ${head.height + 12})` }, ...copy.childNodes);
  const all = draw("svg", { viewBox: `0 0 ${width} ${tall}`, width, height: tall, "font-family": "system-ui, sans-serif" },
    draw("rect", { width: "100%", height: "100%", fill: "#ffffff" }), ...head.parts, body, ...foot.parts);
  if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
  return { text: new XMLSerializer().serializeToString(all), width, height: tall };
}

const saveSvg = (name, title, chart) => save(`${name}.svg`, new Blob([standalone(chart, title).text], { type: "image/svg+xml" }));

function savePng(name, title, chart) {
  const { text, width, height } = standalone(chart, title), picture = new Image(), scale = 2;
  picture.onload = () => {
    const canvas = make("canvas", { width: width * scale, height: height * scale });
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(`${name}.png`, blob));
    URL.revokeObjectURL(picture.src);
  };
  picture.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
}

// A row of download buttons: `actions` maps the label of a button to what it does.
function downloadBar(what, actions) {
  const buttons = Object.entries(actions).map(([label, action]) => {
    const button = make("button", { type: "button", "aria-label": `${label}: download ${what}` }, label);
    button.addEventListener("click", action);
    return button;
  });
  return make("p", { class: "downloads" }, make("span", {}, "Download"), ...buttons);
}

const fileName = (...parts) => parts.join(" ").replaceAll("*", "all").replace(/[^\w.-]+/g, "-").toLowerCase();
