// Labelled controls of the training pages, from plain elements: each is its label, whose `control`
// is the element; and how a page opens its worker.
import {calmMotion, onSchemeChange} from "./charts.mjs";
import {h} from "./dom.mjs";
import {trainingWorker} from "./training_worker.mjs";

const PASTED_MOST = 200_000;  // characters that a field shows

export function labelled(title, control, more = null) {
  return h("label", {class: "t-field"}, h("span", {class: "t-name"}, title), control, more);
}

// A select of [value, words] with what is called when another is chosen.
export function choice(title, options, value, onChoice) {
  const select = h("select", {onchange: () => onChoice(select.value)},
    options.map(([v, words]) => h("option", {value: v, selected: v === value}, words)));
  return labelled(title, select);
}

// A number with bounds; what is no number, or outside, is put right when the field is left.
export function numberField(title, {min, max, step = "any"}, value, onNumber) {
  const input = h("input", {type: "number", min, max, step, value, onchange: () => {
    const n = Number(input.value), fitted = input.value.trim() === "" || !Number.isFinite(n) ? value : Math.min(max, Math.max(min, n));
    const whole = step === 1 ? Math.round(fitted) : fitted;
    input.value = whole;
    if (whole !== value) onNumber(value = whole);
  }});
  return Object.assign(labelled(title, input), {show: (v) => { value = v; input.value = v; }});
}

export function toggle(title, value, onToggle) {
  const box = h("input", {type: "checkbox", checked: value, onchange: () => onToggle(box.checked)});
  return h("label", {class: "t-check"}, box, h("span", {}, title));
}

// How fast it trains: so that one can watch, or as fast as it goes.
export const paceField = (value, onPace) =>
  choice("Pace", [["30", "30 steps a second"], ["300", "300 steps a second"], ["0", "full speed"]], String(value), (v) => onPace(Number(v)));

export const PACES = [30, 300, 0];

export function action(words, onAction, attributes = {}) {
  return h("button", {type: "button", onclick: onAction, ...attributes}, words);
}

// A titled part of a page.
export function panel(title, note, ...children) {
  return h("section", {class: "t-panel", "aria-label": title},
    h("header", {class: "t-head"}, h("h2", {}, title), note && h("p", {class: "t-note"}, note)), ...children);
}

// A field for pasted lines, with a button that uses them. A large text is used as it is pasted:
// showing it would stop the page for many seconds.
export function pasteField(name, placeholder, words, onText) {
  const text = h("textarea", {rows: 5, spellcheck: "false", placeholder, "aria-label": name, onpaste: (e) => {
    const pasted = e.clipboardData?.getData("text") ?? "";
    if (pasted.length < PASTED_MOST) return;
    e.preventDefault();
    onText(pasted);
  }});
  return [text, action(words, () => onText(text.value))];
}

// Curves are drawn ten times a second: more cannot be read, and they take longer than the rest.
export const CURVES_EACH = 100;

// Frames, one for each that the screen shows, twice a second with calm motion: `ask` asks the worker for
// one, `take` gets what it says, `draw` draws it. The next one is asked for before one is drawn, so that it
// is made meanwhile.
function frameLoop(calm, {ask, take, draw}) {
  let on = false, waiting = false, pending = false, last = 0, timer = 0;
  const request = () => { if (on && !waiting) { waiting = true; ask(); } };
  const paint = (now) => {
    if (calm() && now - last < 500) { timer = requestAnimationFrame(paint); return; }
    [last, pending] = [now, false];
    request();
    draw();
  };
  return {
    start() { if (!on) { on = true; request(); } },
    stop() { on = waiting = pending = false; cancelAnimationFrame(timer); },
    arrived(frame) {
      waiting = false;
      take(frame);
      if (!on) draw();
      else if (!pending) timer = requestAnimationFrame(paint);
      pending = on;
    },
  };
}

// Opens the worker of a training page, which has `begin redraw refresh told take drawFresh wanted view
// settings target`, and draws it again when its size or the colours change. `onReady` hears what is open.
export function openTraining(page, kind, loader, modules, onReady = () => {}) {
  page.frames = frameLoop(calmMotion, {
    ask: () => page.worker.ask({type: "frame", ask: page.wanted()}), take: (f) => page.take(f), draw: () => page.drawFresh(),
  });
  page.worker = trainingWorker(loader, {
    ready: (opened) => {
      onReady(opened);
      page.begin();
      page.worker.ask({type: "pace", value: page.settings.pace});
      if (page.target) page.worker.ask({type: "advance", count: page.target});
      page.refresh();
    },
    state: (s) => page.told(s),
    frame: (f) => page.frames.arrived(f),
    failed: ({message}) => page.view.say(`Training has ended: ${message}`),
  });
  page.worker.ask({type: "open", kind, modules});
  onSchemeChange(() => page.redraw());
  new ResizeObserver(() => page.redraw()).observe(page.view.element);
}
