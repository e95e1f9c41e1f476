// Finding and making elements. Text is always set as text; nothing is ever parsed as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (query, root = document) => root.querySelector(query);
const $$ = (query, root = document) => [...root.querySelectorAll(query)];

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}
const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// Groups, regions and lines by the names under which the data has them.
const groupName = (region, group) => `${data.regions[region]}: ${data.iterations[group]}`;
const cellsOf = (table, region, group) => data.tables[table].groups[`${region} ${group}`];
const lineAt = (table, number) => data.tables[table].lines.findIndex((line) => line[0] === number);
