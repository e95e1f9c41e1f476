// Scenarios, baseline, pinned groups, solver settings, and the undo history. All of it lives in the browser; the server is stateless.

const KEPT = "phsafe-scenarios";
const MOST_STEPS = 200;
const PAUSE = 900;
const PIN = ["table", "line", "region", "iteration", "people", "units", "weight"];

export const pinId = (pin) => `${pin.table} ${pin.line} ${pin.region} ${pin.iteration}`;
export const plainPin = (pin) => Object.fromEntries(PIN.filter((name) => pin[name] !== undefined && pin[name] !== "").map((name) => [name, pin[name]]));

const parameters = (scenario) => JSON.stringify(scenario, (key, value) => (["name", "locked"].includes(key) ? undefined : value));

export const store = {
  scenarios: [],
  active: 0,
  baseline: -1, // The index of a scenario, or -1 for the parameters of 2020.
  pins: [],
  solver: { total: "", neighbours: "unbounded", weights: "pins", floor: "none", aim: "measured", targets: {} },
  focus: {},
  numbers: null,
  finished: null,
  problems: {},
  past: [],
  future: [],
  last: { key: null, at: 0 },
  standard: [], // The names of the parameters of 2020: a scenario that no longer has those parameters gets another name.
  listeners: [],

  get scenario() { return this.scenarios[this.active]; },
  get baselineScenario() { return this.baseline < 0 ? null : this.scenarios[this.baseline]; },
  request() { return { scenario: this.scenario, baseline: this.baselineScenario, pins: this.pins }; },

  listen(listener) { this.listeners.push(listener); },
  tell(what) { this.listeners.forEach((listener) => listener(what)); },

  // Make a change. Quick successive changes of one field (typing) form one undo step.
  change(mutate, key = null, what = "scenario") {
    const now = performance.now();
    if (!(key && key === this.last.key && now - this.last.at < PAUSE)) {
      this.past.push(this.snapshot());
      if (this.past.length > MOST_STEPS) this.past.shift();
    }
    this.last = { key, at: now };
    this.future = [];
    const { scenario } = this;
    const before = parameters(scenario);
    mutate(scenario);
    if (this.standard.includes(scenario.name) && parameters(scenario) !== before) scenario.name = this.freshName(`${scenario.name}, changed`);
    this.keep();
    this.tell(what);
  },

  snapshot() {
    const { scenarios, active, baseline, pins, solver } = this;
    return JSON.stringify({ scenarios, active, baseline, pins, solver });
  },

  restore(text) {
    const kept = JSON.parse(text);
    Object.assign(this, kept, { active: Math.min(kept.active, kept.scenarios.length - 1) });
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

  add(scenarios, pins = null) {
    this.change(() => {
      for (const scenario of scenarios) this.scenarios.push({ ...scenario, name: this.freshName(scenario.name) });
      this.active = this.scenarios.length - 1;
      if (pins) this.pins = pins.map(plainPin);
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
      if (this.baseline === index) this.baseline = -1;
      else if (this.baseline > index) this.baseline -= 1;
    }, null, "all");
  },

  choose(index) {
    this.active = index;
    this.keep();
    this.tell("all");
  },
};
