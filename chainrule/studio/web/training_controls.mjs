// Labelled controls of the training pages, from plain elements: each is its label, whose `control`
// is the element.
import {h} from "./dom.mjs";
import {PACES} from "./training_settings.mjs";

const PASTED_MOST = 200_000; // characters that a field shows

export function labelledField(title, control, more = null) {
  return h("label", {class: "t-field"}, h("span", {class: "t-name"}, title), control, more);
}

// A select of [value, words] with what is called when another is chosen.
export function choice(title, options, value, onChoice) {
  const select = h(
    "select",
    {onchange: () => onChoice(select.value)},
    options.map(([v, words]) => h("option", {value: v, selected: v === value}, words)),
  );
  return labelledField(title, select);
}

// A number with bounds; what is no number, or outside, is put right when the field is left.
export function numberField(title, {min, max, step = "any"}, value, onNumber) {
  const input = h("input", {
    type: "number",
    min,
    max,
    step,
    value,
    onchange: () => {
      const n = Number(input.value);
      const inBounds =
        input.value.trim() === "" || !Number.isFinite(n) ? value : Math.min(max, Math.max(min, n));
      const whole = step === 1 ? Math.round(inBounds) : inBounds;
      input.value = whole;
      if (whole !== value) onNumber((value = whole));
    },
  });
  return Object.assign(labelledField(title, input), {
    show: (v) => {
      value = v;
      input.value = v;
    },
  });
}

export function toggle(title, value, onToggle) {
  const box = h("input", {type: "checkbox", checked: value, onchange: () => onToggle(box.checked)});
  return h("label", {class: "t-check"}, box, h("span", {}, title));
}

// How fast it trains: so that one can watch, or as fast as it goes.
export function paceField(value, onPace) {
  const title = (pace) => (pace ? `${pace} steps a second` : "full speed");
  const options = PACES.map((pace) => [String(pace), title(pace)]);
  return choice("Pace", options, String(value), (v) => onPace(Number(v)));
}

export function action(words, onAction, attributes = {}) {
  return h("button", {type: "button", onclick: onAction, ...attributes}, words);
}

// A titled part of a page.
export function panel(title, note, ...children) {
  return h(
    "section",
    {class: "t-panel", "aria-label": title},
    h("header", {class: "t-head"}, h("h2", {}, title), note && h("p", {class: "t-note"}, note)),
    ...children,
  );
}

// A canvas that says in words what it shows.
export function pictureCanvas(kind, what, attributes = {}) {
  const label = `${what}, not drawn yet`;
  return h("canvas", {class: kind, role: "img", "aria-label": label, ...attributes});
}

// A slider, its title, and a place for what it stands at.
export function sliderRow(title, slider, output) {
  return h("div", {class: "t-slider"}, h("span", {}, title), slider, output);
}

// A part that is closed until it is asked for.
export function closedPart(title, attributes, ...children) {
  return h("details", attributes, h("summary", {}, title), ...children);
}

// A field for pasted lines, with a button that uses them. A large text is used as it is pasted:
// showing it would stop the page for many seconds.
export function pasteField(name, placeholder, words, onText) {
  const text = h("textarea", {
    rows: 5,
    spellcheck: "false",
    placeholder,
    "aria-label": name,
    onpaste: (e) => {
      const clipboardText = e.clipboardData?.getData("text") ?? "";
      if (clipboardText.length < PASTED_MOST) return;
      e.preventDefault();
      onText(clipboardText);
    },
  });
  return [text, action(words, () => onText(text.value))];
}
