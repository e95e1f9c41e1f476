// Charts in SVG and HTML. Their colours come from the theme; lines differ by dash as well as by colour.

import { chip, el, svg } from "./dom.js";

export const percent = (share) => `${(100 * share).toFixed(share < 0.001 ? 2 : 1)} %`;

// The share of each table in the total: a full bar is 100 %.
export function bars(start, numbers, label) {
  const shares = numbers.totals.by_tabulation;
  const colour = new Map(start.levels.map((level, i) => [level.key, `c${i % 6}`]));
  const levels = new Map(start.levels.map((level) => [level.key, level.label]));
  const rows = start.tabulations.filter((t) => shares[t.name]).flatMap((t) => {
    const bar = el("div", { class: "bar", role: "img", "aria-label": `${label(t.name)} ${t.name}: ${percent(shares[t.name].share)} of the total` },
      Object.entries(numbers.rows[t.name]).map(([level, row]) => el("i", { class: colour.get(level), "width%": 100 * row.share, title: `${levels.get(level)}: ${row.share_text}, ${row.unbounded}` })));
    return [el("span", {}, label(t.name), " ", el("small", {}, t.name)), bar, el("span", { class: "num", title: shares[t.name].unbounded }, percent(shares[t.name].share), " ", ["better", "worse"].includes((shares[t.name].change || {}).state) ? chip(shares[t.name].change) : null)];
  });
  const legend = start.levels.filter((level) => numbers.totals.by_level[level.key]).map((level) =>
    el("span", {}, el("i", { class: colour.get(level.key) }), `${level.label} ${percent(numbers.totals.by_level[level.key].share)}`));
  return [el("div", { class: "bars" }, rows), el("p", { class: "muted" }, "A full bar is 100 % of the privacy loss."), el("div", { class: "legend" }, legend)];
}

const W = 460, H = 270, LEFT = 54, RIGHT = 16, TOP = 14, BOTTOM = 38;

// Round numbers from 0 to `most`, four to six of them.
function ticks(most) {
  const raw = most / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= raw);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
}

// A frame with linear axes from zero (or `x0`), grid lines, numbers and titles.
function frame({ x0 = 0, x1, y1, xTicks, xTitle, yTitle, label }) {
  const x = (v) => LEFT + ((v - x0) / (x1 - x0)) * (W - LEFT - RIGHT);
  const y = (v) => TOP + (1 - Math.min(v, y1 * 1.2) / y1) * (H - TOP - BOTTOM);
  const node = svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label });
  for (const v of xTicks || ticks(x1)) node.append(svg("line", { class: "axis", x1: x(v), x2: x(v), y1: TOP, y2: H - BOTTOM }), svg("text", { x: x(v), y: H - BOTTOM + 14, "text-anchor": "middle" }, short(v)));
  for (const v of ticks(y1)) node.append(svg("line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: y(v), y2: y(v) }), svg("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, short(v)));
  node.append(svg("text", { x: (LEFT + W - RIGHT) / 2, y: H - 4, "text-anchor": "middle" }, xTitle), svg("text", { x: 12, y: (TOP + H - BOTTOM) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(TOP + H - BOTTOM) / 2})` }, yTitle));
  // Curves end at the frame; the clip path needs an id of its own.
  const id = `clip-${(frame.count = (frame.count || 0) + 1)}`;
  node.append(svg("clipPath", { id }, svg("rect", { x: LEFT, y: TOP, width: W - LEFT - RIGHT, height: H - TOP - BOTTOM })));
  const line = (name, points) => node.append(svg("path", { class: `line ${name}`, "clip-path": `url(#${id})`, d: points.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("") }));
  const dot = (name, a, b, text, shift = -9) => {
    const right = x(a) > W - 150;
    const py = y(Math.min(b, y1));
    node.append(svg("circle", { class: name, cx: x(a), cy: py, r: 5 }), svg("text", { class: "strong", x: x(a) + (right ? -9 : 9), y: Math.max(TOP + 10, Math.min(H - BOTTOM - 4, py + shift)), "text-anchor": right ? "end" : "start" }, text));
  };
  return { node, x, y, line, dot };
}

function short(v) {
  const n = Number(v.toPrecision(6));
  if (n >= 1e6) return `${n / 1e6}M`;
  return n >= 1e4 ? `${n / 1000}k` : String(n);
}

const people = (v) => v.toLocaleString("en-US", { maximumFractionDigits: v < 10 ? 1 : 0 });

// Noise, truncation and both together against τ. The total has a minimum: left of it truncation, right of it noise dominates.
export function errorPicture(data) {
  const { points, tau, best } = data;
  const at = (t) => points.find((p) => p.tau === t) || points[0];
  const last = points.at(-1).tau;
  const y1 = 1.15 * Math.max(at(tau).total, at(best).total * 2, Math.max(...points.map((p) => p.noise)));
  const every = last > 40 ? Math.ceil(last / 10) : 2;
  const xTicks = points.map((p) => p.tau).filter((t) => t % every === 0 || t === 1);
  const { node, line, dot } = frame({ x0: 1, x1: last, y1, xTicks, xTitle: "τ, the most people counted per household", yTitle: "error in people", label: data.sentence });
  line("noise", points.map((p) => [p.tau, p.noise]));
  line("dropped", points.map((p) => [p.tau, p.dropped]));
  line("total", points.map((p) => [p.tau, p.total]));
  // One label goes below its dot and the other above; close to the axis both go above, at different heights.
  const low = at(best).total < 0.12 * y1;
  if (best !== tau) dot("least", best, at(best).total, `lowest: τ ${best}, ± ${people(at(best).total)}`, low ? -9 : 18);
  dot("here", tau, at(tau).total, `now: τ ${tau}, ± ${people(at(tau).total)}`, low && best !== tau ? -24 : -9);
  const key = (name, text) => el("span", {}, svg("svg", { class: "key", viewBox: "0 0 26 8", "aria-hidden": "true" }, svg("path", { class: `line ${name}`, d: "M0 4H26" })), text);
  return [el("p", { id: "error-says" }, data.sentence), node,
    el("div", { class: "legend" }, key("total", "both together"), key("noise", "noise"), key("dropped", "people left out by truncation")),
    data.measured ? el("p", {}, data.measured.sentence) : null,
    numbers("Show as a table", ["τ", "noise ±", "left out", "together ±"], points.map((p) => [p.tau, people(p.noise), people(p.dropped), people(p.total)])),
    el("p", {}, el("small", {}, data.source ? `Source: ${data.source}.` : ""))];
}

// The margin of error against the budget on plain axes: each further gain costs more. Marks show now, the baseline, and half the margin.
export function budgetPicture(data, before, unit, name) {
  const { budget, moe } = data;
  const most = Math.max(4.6 * budget, before ? 1.15 * Number(before.budget) : 0);
  const top = Math.max(2.4 * moe, before ? Math.min(1.15 * before.moe, 8 * moe) : 0);
  const inside = data.points.filter((p) => p[0] <= most * 1.3);
  const { node, line, dot } = frame({ x1: most, y1: top, xTitle: `budget ${unit}`, yTitle: "margin of error ±", label: `Margin of error against budget: ± ${people(moe)} at ${budget}. Half the margin, ± ${people(moe / 2)}, takes more.` });
  line("total", inside);
  const half = data.points.reduce((a, b) => (Math.abs(b[1] - moe / 2) < Math.abs(a[1] - moe / 2) ? b : a));
  dot("least", half[0], half[1], `half the margin: ${(half[0] / budget).toFixed(0)} × the budget`, 18);
  const moved = before && Math.abs(Number(before.budget) / budget - 1) > 0.005;
  if (moved) dot("was", Number(before.budget), before.moe, name, 18);
  dot("here", budget, moe, `now ± ${people(moe)}`);
  return [node, numbers("Show as a table", [`budget ${unit}`, "margin ±"], data.points.filter((p, i) => i % 6 === 0).map((p) => [Number(p[0].toPrecision(3)), people(p[1])]))];
}

const numbers = (title, heads, rows) => el("details", { class: "as-table" }, el("summary", {}, title), el("table", { class: "plain" },
  el("thead", {}, el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, rows.map((row) => el("tr", {}, row.map((value) => el("td", {}, String(value))))))));
