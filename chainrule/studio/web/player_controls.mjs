// The controls of the player: its toolbar, the buttons of the view, and the places that it fills.
import {h} from "./dom.mjs";

export const SPEEDS = [
  ["slow", 2200],
  ["normal", 1100],
  ["fast", 350],
]; // milliseconds a step

const playerButton = (label, text, onclick, extra = {}) =>
  h("button", {"aria-label": label, title: label, onclick, ...extra}, text);

// {root, …}: the whole player as one element, and the parts of it that change.
export function playerControls(player, below) {
  const parts = {
    play: playerButton("play forward in time", "▶ Play", () => player.play(1), {class: "primary"}),
    slider: h("input", {
      type: "range",
      min: 0,
      "aria-label": "step",
      oninput: (e) => player.goTo(Number(e.target.value), {quiet: true}),
    }),
    counter: h("output", {class: "counter"}),
    sentence: h("p", {class: "sentence", "aria-live": "polite"}),
    findings: h("div"),
    panel: h("aside", {class: "panel", tabindex: -1, "aria-label": "details of the step"}),
    stage: h("div", {class: "stage", tabindex: -1}),
    sweep: h("select", {
      "aria-label": "which backward pass",
      onchange: (e) => player.chooseSweep(Number(e.target.value)),
    }),
    wrong: h("input", {type: "checkbox", onchange: (e) => player.setWrong(e.target.checked)}),
    digits: h("input", {
      type: "checkbox",
      onchange: (e) => player.setDigits(e.target.checked ? "exact" : "short"),
    }),
    fold: playerButton("fold or unfold all groups", "⊟", () => player.graph.foldAll()),
  };
  parts.sweepLabel = h("label", null, parts.sweep);
  parts.wrongLabel = h(
    "label",
    {title: "visit the nodes from the inputs, so that a node sends before all has come"},
    parts.wrong,
    " wrong order",
  );
  parts.view = viewButtons(player, parts);
  parts.root = h(
    "section",
    {class: "player", onkeydown: (e) => player.key(e)},
    toolbar(player, parts),
    parts.sentence,
    parts.findings,
    h("div", {class: "split"}, parts.stage, parts.panel),
    below,
  );
  return parts;
}

function toolbar(player, parts) {
  const speeds = SPEEDS.map(([name], i) =>
    h("option", {value: i, selected: i === player.speed}, name),
  );
  const speed = h(
    "select",
    {
      "aria-label": "speed",
      onchange: (e) => {
        player.speed = Number(e.target.value);
      },
    },
    ...speeds,
  );
  return h(
    "div",
    {class: "toolbar", role: "toolbar", "aria-label": "player"},
    h(
      "div",
      {class: "moves"},
      playerButton("to the start (Home)", "|◀", () => player.goTo(0)),
      playerButton("play backward in time", "◀◀", () => player.play(-1)),
      playerButton("one step back (←)", "◀", () => player.goTo(player.position - 1)),
      parts.play,
      playerButton("one step on (→)", "▶", () => player.goTo(player.position + 1)),
      playerButton("to the backward pass", "∂", () => player.goTo(player.backwardAt + 1)),
      playerButton("to the end (End)", "▶|", () => player.goTo(player.steps.length)),
    ),
    h("div", {class: "where"}, parts.slider, parts.counter),
    h(
      "div",
      {class: "options"},
      speed,
      parts.sweepLabel,
      parts.wrongLabel,
      h("label", null, parts.digits, " 17 digits"),
    ),
  );
}

function viewButtons(player, parts) {
  return h(
    "div",
    {class: "zoombar", role: "group", "aria-label": "view"},
    playerButton("zoom in", "+", () => player.graph.zoom(1.25)),
    playerButton("zoom out", "−", () => player.graph.zoom(0.8)),
    playerButton("show the whole graph", "⤢", () => player.graph.fitAll()),
    parts.fold,
  );
}
