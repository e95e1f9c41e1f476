// Terms explained where they appear. `word` makes a button that opens the explanation in a small popover.
// `glossary` is the term's heading in docs/reference/glossary.md; a test holds the two together.

import { $, el, show } from "./dom.js";

export const WORDS = {
  loss: { title: "Privacy loss", glossary: "Privacy loss", text: "How much the published numbers can reveal about any one person. 0 would reveal nothing, but the numbers would be useless; a larger loss means more accurate numbers and less protection." },
  rho: { title: "ρ (rho)", glossary: "Rho (ρ)", text: "The number in which a privacy loss is stated here. ρ adds up over all tables. Four times the ρ gives half the margin of error." },
  epsilon: { title: "ε (epsilon)", glossary: "Epsilon (ε), delta (δ)", text: "Another way to state a privacy loss: nothing that is published becomes more than e^ε times as likely because of one person’s record, except with a tiny probability δ." },
  delta: { title: "δ (delta)", glossary: "Epsilon (ε), delta (δ)", text: "The tiny probability that is set aside when a ρ is stated as an ε. The usual choice is 1e-10, one in ten billion. It changes how the loss is stated, not the noise." },
  zcdp: { title: "zCDP", glossary: "Privacy definition", text: "Zero-concentrated differential privacy, the definition used in 2020. Budgets are ρ, and noise is bell-shaped (discrete Gaussian)." },
  puredp: { title: "Pure DP", glossary: "Privacy definition", text: "Pure differential privacy: a stricter definition without δ. Budgets are ε, and noise has heavier tails (two-sided geometric)." },
  unbounded: { title: "Added or removed (unbounded)", glossary: "Bounded, unbounded", text: "How much the tables can reveal about whether you were counted: 0 is nothing, and a smaller number protects better. It compares the data with and without one person. Experts call this the unbounded loss." },
  bounded: { title: "Changed (bounded)", glossary: "Bounded, unbounded", text: "How much the tables can reveal about what your record says: 0 is nothing, and a smaller number protects better. It compares the data with one person’s record replaced by any other. Experts call this the bounded loss. If population totals are published exactly, it is the one to quote." },
  attacker: { title: "Someone who guesses", glossary: "Neighbours", text: "The strongest opponent possible: someone who knows every record except yours, and can only flip a coin before seeing the tables. Right 50 times in 100 means that the tables gave nothing away." },
  budget: { title: "Budget", glossary: "Budget", text: "The part of the privacy loss that one table gets at one level. A larger budget means less noise there, and a larger total." },
  moe: { title: "Margin of error (MOE)", glossary: "Margin of error (MOE)", text: "In nine of ten releases, the published number is no further than this from the count that would be published without noise." },
  finished: { title: "Finished margin", glossary: "Estimates, finished tables", text: "The margin of error after estimation has combined everything that must add up, for instance the states and the nation. It is never larger than the margin of the noise alone." },
  joint: { title: "After joint estimation", glossary: "Joint, independent method", text: "Joint estimation uses the fact that tables must add up, which removes some of the noise. The margin shown here is of the noise that is left. It follows from the budgets alone, without data." },
  formula: { title: "1.645 σ", glossary: "Margin of error (MOE)", text: "The paper’s formula: 1.645 times the standard deviation σ of the noise covers nine of ten cases." },
  exact: { title: "Exact", glossary: "Discrete Gaussian", text: "The smallest whole number that covers nine of ten cases, computed from the distribution of the noise itself instead of a formula." },
  tau: { title: "τ (tau), the truncation threshold", glossary: "Truncation, truncation threshold (τ)", text: "At most τ people of a household are counted in this table. A larger τ leaves out fewer people of large households, and needs more noise." },
  truncation: { title: "Truncation", glossary: "Truncation, truncation threshold (τ)", text: "People beyond the threshold τ of a large household are left out, always in the same direction: published numbers are slightly too small. This limits what one household can change." },
  noise: { title: "Noise", glossary: "Noise", text: "Random whole numbers added to every count, so that no count shows whether a particular person is in it." },
  level: { title: "Level", glossary: "Level", text: "A kind of area crossed with a kind of group: for instance State × race (A–G) has one table for each race in each state. Every level has its own budget and its own noise." },
  races: { title: "Race (A–G)", glossary: "Iteration", text: "A White alone, B Black or African American alone, C American Indian and Alaska Native alone, D Asian alone, E Native Hawaiian and Other Pacific Islander alone, F Some Other Race alone, G two or more races." },
  ethnicity: { title: "Ethnicity (H, I)", glossary: "Iteration", text: "H Hispanic or Latino (of any race), I White alone and not Hispanic." },
  everyone: { title: "Everyone (*)", glossary: "Iteration", text: "The whole population of the area, not divided by race or ethnicity." },
  cell: { title: "Basis cell", glossary: "Basis cell", text: "A line of a table that gets noise of its own. All other lines are sums of basis cells; a sum of n of them has √n times the margin." },
  tabulation: { title: "Tabulation", glossary: "Tabulation", text: "One measured set of counts. A table of averages has two: its people, and its households or families to divide by." },
  derived: { title: "Derived", glossary: "Derived tabulation", text: "Computed from noisy counts of another table, so it costs no privacy." },
  mode: { title: "Sensitivity mode", glossary: "Sensitivity mode", text: "The bound on what one person can change, to which noise is calibrated. A smaller bound means less noise for the same budget, and holds under more assumptions." },
  accounting: { title: "Tight accounting", glossary: "Accounting", text: "The loss of the very same noise, added up with the smallest bounds that can be proven. It assumes that the geography of an address is public." },
  baseline: { title: "Compared with", glossary: "Config", text: "What every number is compared with: the parameters of 2020, or one of your scenarios. ▲ and ▼ show the change; green is more accurate or better protected, red the opposite." },
  lock: { title: "Lock", glossary: "Budget", text: "The solver leaves a locked budget as it is. You can lock one field, a row (a table) or a column (a level)." },
  floor: { title: "Floor", glossary: "Budget", text: "A limit that the solver may not break: no level, and none of the groups you care about, may get a larger margin of error than it has now." },
  weight: { title: "Weight", glossary: "Budget", text: "How much a group counts when the solver splits the total. Its levels count this many times as much as others." },
  hash: { title: "Config hash", glossary: "Config", text: "A fingerprint (SHA-256) of the config file. Two configs with the same hash are the same to the last digit." },
};

let open = null;

export function setUp() {
  addEventListener("scroll", follow, true);
  document.body.append(el("div", { id: "word", popover: "auto", role: "status" }));
  for (const node of document.querySelectorAll("[data-word]")) node.append("\u00a0", mark(node.dataset.word));
}

// The term itself as a button.
export function word(key, text = WORDS[key].title) {
  const button = el("button", { type: "button", class: "word", "aria-label": `${text}: explain`, onclick: () => explain(key, button) }, text);
  return button;
}

// A question mark beside something that has a label already.
export function mark(key) {
  const button = el("button", { type: "button", class: "why", "aria-label": `What is this? ${WORDS[key].title}`, onclick: () => explain(key, button) }, "?");
  return button;
}

function explain(key, button) {
  const node = $("#word");
  const box = button.getBoundingClientRect();
  // A popover above an open dialog must be inside it.
  (button.closest("dialog") || document.body).append(node);
  node.showPopover();
  show(node, el("strong", {}, WORDS[key].title), el("p", {}, WORDS[key].text));
  const [width, height] = [node.offsetWidth, node.offsetHeight];
  node.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
  node.style.top = `${box.bottom + height + 8 > innerHeight && box.top > height + 8 ? box.top - height - 6 : box.bottom + 6}px`;
  open = { button, top: box.top };
}

// The popover belongs to its button: once the button has moved away, hide it.
function follow() {
  if (open && Math.abs(open.button.getBoundingClientRect().top - open.top) > 40) { open = null; $("#word").hidePopover(); }
}
