// Scenarios, the selected cell and the undo history. All of it lives in the browser; the server is stateless.

const KEPT = "phsafe-scenarios";
const MOST_STEPS = 200;
const PAUSE = 900;

export const store = {
  scenarios: [],
  active: 0,
  focus: {},
  numbers: null,
  problems: {},
  past: [],
  future: [],
  last: { key: null, at: 0 },
  listeners: [],

  get scenario() { return this.scenarios[this.active]; },

  listen(listener) { this.listeners.push(listener); },
  tell(what) { this.listeners.forEach((listener) => listener(what)); },

  // Change the scenario. Quick successive changes of one field (typing) form one undo step.
  change(mutate, key = null, what = "scenario") {
    const now = performance.now();
    if (!(key && key === this.last.key && now - this.last.at < PAUSE)) {
      this.past.push(this.snapshot());
      if (this.past.length > MOST_STEPS) this.past.shift();
    }
    this.last = { key, at: now };
    this.future = [];
    mutate(this.scenario);
    this.keep();
    this.tell(what);
  },

  snapshot() { return JSON.stringify({ scenarios: this.scenarios, active: this.active }); },

  restore(text) {
    const { scenarios, active } = JSON.parse(text);
    Object.assign(this, { scenarios, active: Math.min(active, scenarios.length - 1) });
    this.last = { key: null, at: 0 };
    this.keep();
    this.tell("all");
  },

  undo() { this.step(this.past, this.future); },
  redo() { this.step(this.future, this.past); },
  step(from, to) {
    if (!from.length) return;
    to.push(this.snapshot());
    this.restore(from.pop());
  },

  keep() { try { sessionStorage.setItem(KEPT, this.snapshot()); } catch { /* storage full or forbidden: not kept */ } },
  kept() { return sessionStorage.getItem(KEPT); },

  add(scenarios) {
    this.change(() => {
      for (const scenario of scenarios) this.scenarios.push({ ...scenario, name: this.freshName(scenario.name) });
      this.active = this.scenarios.length - 1;
    }, null, "all");
  },

  freshName(name) {
    const names = new Set(this.scenarios.map((scenario) => scenario.name));
    if (!names.has(name)) return name;
    const stem = name.replace(/ \(\d+\)$/, "");
    let i = 2;
    while (names.has(`${stem} (${i})`)) i += 1;
    return `${stem} (${i})`;
  },

  remove(index) {
    if (this.scenarios.length < 2) return;
    this.change(() => {
      this.scenarios.splice(index, 1);
      if (this.active >= index && this.active > 0) this.active -= 1;
    }, null, "all");
  },

  choose(index) {
    this.active = index;
    this.keep();
    this.tell("all");
  },
};
