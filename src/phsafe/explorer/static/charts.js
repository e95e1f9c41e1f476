// Charts in SVG and HTML. Their colours come from the theme.

import { el, svg } from "./dom.js";

export function bars(start, numbers) {
  const shares = numbers.totals.by_tabulation;
  const most = Math.max(...Object.values(shares).map((part) => part.share));
  const colour = new Map(start.levels.map((level, i) => [level.key, `c${i % 6}`]));
  const label = new Map(start.levels.map((level) => [level.key, level.label]));
  const rows = start.tabulations.filter((t) => shares[t.name]).flatMap((t) => {
    const parts = numbers.rows[t.name];
    const bar = el("div", { class: "bar", role: "img", "aria-label": `${t.name}: ${percent(shares[t.name].share)} of the total` },
      Object.entries(parts).map(([level, row]) => el("i", { class: colour.get(level), "width%": (100 * row.share) / most, title: `${t.name}, ${label.get(level)}: ${row.share_text}, ${row.unbounded}` })));
    return [el("span", {}, t.name), bar, el("span", { class: "num", title: shares[t.name].unbounded }, percent(shares[t.name].share))];
  });
  const legend = start.levels.filter((level) => numbers.totals.by_level[level.key]).map((level) =>
    el("span", {}, el("i", { class: colour.get(level.key) }), `${level.label} ${percent(numbers.totals.by_level[level.key].share)}`));
  return [el("div", { class: "bars" }, rows), el("div", { class: "legend" }, legend)];
}

export const percent = (share) => `${(100 * share).toFixed(share < 0.001 ? 2 : 1)} %`;

const W = 420, H = 250, LEFT = 50, RIGHT = 14, TOP = 10, BOTTOM = 34;

// Margin of error against budget, both on a logarithmic scale. The marker follows the pointer along the curve.
export function curve(data, unit) {
  const xs = data.points.map((p) => Math.log10(p[0])), ys = data.points.map((p) => Math.log10(p[1]));
  const [x0, x1, y0, y1] = [xs[0], xs.at(-1), Math.min(...ys), Math.max(...ys)];
  const x = (v) => LEFT + ((Math.log10(v) - x0) / (x1 - x0)) * (W - LEFT - RIGHT);
  const y = (v) => TOP + ((y1 - Math.log10(v)) / (y1 - y0)) * (H - TOP - BOTTOM);
  const decades = (low, high) => Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 }, (_, i) => 10 ** (Math.ceil(low) + i));
  const node = svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `Margin of error against budget: ± ${data.moe.toFixed(2)} at ${data.budget}` });
  for (const v of decades(x0, x1)) {
    node.append(svg("line", { class: "axis", x1: x(v), x2: x(v), y1: TOP, y2: H - BOTTOM }), svg("text", { x: x(v), y: H - BOTTOM + 14, "text-anchor": "middle" }, plain(v)));
  }
  for (const v of decades(y0, y1)) {
    node.append(svg("line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: y(v), y2: y(v) }), svg("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, plain(v)));
  }
  const [hx, hy] = [x(data.budget), y(data.moe)];
  const cross = svg("line", { class: "cross", x1: hx, x2: hx, y1: hy, y2: H - BOTTOM });
  const across = svg("line", { class: "cross", x1: LEFT, x2: hx, y1: hy, y2: hy });
  const dot = svg("circle", { class: "here", cx: hx, cy: hy, r: 5.5 });
  const caption = svg("text", { class: "strong", x: hx + 9, y: hy - 8 });
  const put = (budget, moe) => {
    const [px, py] = [x(budget), y(moe)];
    dot.setAttribute("cx", px); dot.setAttribute("cy", py);
    cross.setAttribute("x1", px); cross.setAttribute("x2", px); cross.setAttribute("y1", py);
    across.setAttribute("x2", px); across.setAttribute("y1", py); across.setAttribute("y2", py);
    caption.textContent = `± ${moe.toLocaleString("en-US", { maximumFractionDigits: 1 })} at ${unit} ${Number(budget.toPrecision(4))}`;
    const right = px > W - 170;
    caption.setAttribute("x", right ? px - 9 : px + 9); caption.setAttribute("text-anchor", right ? "end" : "start");
    caption.setAttribute("y", Math.max(TOP + 10, py - 8));
  };
  node.append(svg("path", { class: "curve", d: data.points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("") }),
    cross, across, dot, caption, svg("text", { x: (LEFT + W) / 2, y: H - 3, "text-anchor": "middle" }, `budget ${unit}`),
    svg("text", { x: 12, y: (TOP + H - BOTTOM) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(TOP + H - BOTTOM) / 2})` }, "MOE"));
  put(data.budget, data.moe);
  node.addEventListener("pointermove", (event) => {
    const box = node.getBoundingClientRect();
    const want = x0 + ((((event.clientX - box.left) / box.width) * W - LEFT) / (W - LEFT - RIGHT)) * (x1 - x0);
    const best = data.points.reduce((a, b) => (Math.abs(Math.log10(b[0]) - want) < Math.abs(Math.log10(a[0]) - want) ? b : a));
    put(best[0], best[1]);
  });
  node.addEventListener("pointerleave", () => put(data.budget, data.moe));
  return node;
}

function plain(v) {
  if (v >= 1e6) return `${v / 1e6}M`;
  if (v >= 1000) return `${v / 1000}k`;
  return v < 1e-4 ? v.toExponential(0) : String(Number(v.toPrecision(1)));
}
