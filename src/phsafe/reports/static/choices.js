// The reader's choices are the values of the page's controls, and are kept in its address: `#tables&region=STATE+44`.
// A control at its default is left out. Opening such an address restores the choices and goes to the section.
const controls = $$("form.choose select, form.choose input[type=checkbox]");
const control = (name) => controls.find((one) => one.name === name);
const chosen = (name) => control(name)?.value;
const checked = (name) => controls.filter((one) => one.name === name && one.checked).map((one) => one.value);
const allDigits = () => Boolean(control("digits")?.checked);

const preset = (one) => ($$("option", one).find((option) => option.defaultSelected) || $("option", one)).value;
const isKnown = (one, wanted) => $$("option", one).some((option) => option.value === wanted);

function writeAddress(section) {
  const parameters = new URLSearchParams();
  for (const one of controls) {
    if (one.type === "checkbox" ? one.checked : one.value !== preset(one)) parameters.append(one.name, one.value);
  }
  const text = parameters.toString();
  history.replaceState(null, "", `#${section}${text ? `&${text}` : ""}`);
}

function readAddress() {
  const [section, ...rest] = location.hash.slice(1).split("&");
  const parameters = new URLSearchParams(rest.join("&"));
  for (const one of rest.length ? controls : []) {
    const wanted = parameters.getAll(one.name);
    if (one.type === "checkbox") one.checked = wanted.includes(one.value);
    else one.value = wanted.length && isKnown(one, wanted[0]) ? wanted[0] : preset(one);
  }
  return section;
}

// Choose something by script, as if the reader had.
function choose(section, values) {
  for (const [name, wanted] of Object.entries(values)) {
    if (control(name) && isKnown(control(name), wanted)) control(name).value = wanted;
  }
  writeAddress(section);
  showEverything();
}
