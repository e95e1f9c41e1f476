// Create elements. Strings always become text nodes, so nothing typed or loaded can become markup.

export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

const shown = (children) => children.flat(3).filter((child) => child !== null && child !== undefined && child !== false);

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "width%") node.style.width = `${value}%`;
    else if (name === "left%") node.style.left = `${value}%`;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...shown(children));
  return node;
}

// A label for a narrow column heading: it wraps, but not within parentheses.
export const heading = (label) => label.split(/(\([^)]*\))/).map((part) => (part.startsWith("(") ? el("span", { class: "nowrap" }, part) : part));

export const $ = (selector) => document.querySelector(selector);

export function show(node, ...children) {
  node.replaceChildren(...shown(children));
}

// Radio buttons styled as a segmented control.
export function segmented(name, options, value, change, label) {
  return el("div", { class: "seg", role: "radiogroup", "aria-label": label },
    options.map(([key, text, title]) => {
      const input = el("input", { type: "radio", name, value: key, onchange: () => change(key) });
      input.checked = key === value;
      return el("label", { title }, input, text);
    }));
}

export function select(options, value, change, label) {
  const node = el("select", { "aria-label": label, onchange: () => change(node.value) },
    options.map(([key, text]) => el("option", { value: key }, text)));
  node.value = value;
  return node;
}

// A title, and its code in small print.
export const named = (title, code) => el("span", { class: "named" }, title, " ", el("small", {}, code));

// How a number differs from the baseline. Colour, arrow and words all show it.
export function chip(change) {
  if (!change) return null;
  const arrow = change.state === "same" ? "=" : change.ratio === null || change.ratio === undefined ? "" : change.ratio > 1 ? "▲" : "▼";
  const spoken = { better: "better", worse: "worse" }[change.state];
  return el("span", { class: `chip ${change.state}` }, arrow && el("span", { "aria-hidden": "true" }, `${arrow} `), change.text, spoken && el("span", { class: "sr" }, ` (${spoken})`));
}

// A message at the bottom of the window. "stale" messages go away by themselves when fields are valid again.
export function notice(text, kind = "", action = null) {
  const node = $("#notice");
  clearTimeout(notice.timer);
  if (kind === "calm") notice.timer = setTimeout(() => notice(""), 15000);
  node.hidden = !text;
  node.className = kind;
  show(node, text || "", action, text ? el("button", { class: "small", "aria-label": "Dismiss", onclick: () => notice("") }, "✕") : null);
}
