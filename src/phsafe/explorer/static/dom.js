// Create elements. Strings always become text nodes, so nothing typed or loaded can become markup.

export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "width%") node.style.width = `${value}%`;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// A label for a narrow column heading: it wraps, but not within parentheses.
export const heading = (label) => label.split(/(\([^)]*\))/).map((part) => (part.startsWith("(") ? el("span", { class: "nowrap" }, part) : part));

export const $ = (selector) => document.querySelector(selector);

export function show(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
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

export function notice(text, calm = false) {
  const node = $("#notice");
  node.hidden = !text;
  node.className = calm ? "calm" : "";
  node.textContent = text || "";
}
