// Six guided lessons: each a list of [text, page, state], shown one after the other above the page.
import {h, keepingFocus} from "./dom.mjs";

const TWO_PATHS = {e: "d = a*b + a", "v.a": "2", "v.b": "3"};
const ONE_PATH = {e: "f = relu(a*b + d)", "v.a": "2", "v.b": "-3", "v.d": "10"};
const SIGMOIDS = {
  e: "h1 = sigmoid(w*x)\nh2 = sigmoid(w*h1)\nh3 = sigmoid(w*h2)\ny = sigmoid(w*h3)",
  "v.w": "1",
  "v.x": "2",
};

export const LESSONS = [
  {
    key: "chain",
    title: "The chain rule",
    steps: [
      [
        "Forward, each op computes a value from its inputs: a·b = −6, then −6 + 10 = 4, and relu leaves 4" +
          " as it is.",
        "expr",
        {...ONE_PATH, step: "3"},
      ],
      [
        "Backward begins at the result. How much does f change if f changes? As much: its gradient is 1.",
        "expr",
        {...ONE_PATH, step: "4"},
      ],
      [
        "Each op multiplies what comes from above, the upstream gradient, by its own local derivative. " +
          "For relu that is 1, since its input is above 0.",
        "expr",
        {...ONE_PATH, step: "5"},
      ],
      [
        "A product hands each factor the other one: a gets 1 × b = −3.",
        "expr",
        {...ONE_PATH, step: "8"},
      ],
      [
        "So a has the gradient −3. The table above the graph tries it: add 0.001 to a, and f falls from 4" +
          " to 3.997. The slope is −3.",
        "expr",
        {...ONE_PATH, step: "9"},
      ],
    ],
  },
  {
    key: "paths",
    title: "Two paths add up",
    steps: [
      ["Here a is used twice: in a·b, and by itself.", "expr", {...TWO_PATHS, step: "2"}],
      [
        "From the sum, a gets 1. That is not its gradient yet: another contribution is to come.",
        "expr",
        {...TWO_PATHS, step: "5"},
      ],
      [
        "From the product it gets b = 3. Contributions of all paths add up: 1 + 3 = 4.",
        "expr",
        {...TWO_PATHS, step: "6"},
      ],
      [
        "In a wrong order it goes wrong. Here the product sends before its own gradient has come, so it " +
          "sends nothing: a ends with 1, b with 0.",
        "expr",
        {...TWO_PATHS, step: "7", order: "wrong"},
      ],
    ],
  },
  {
    key: "vanishing",
    title: "Vanishing sigmoids",
    steps: [
      [
        "Four sigmoids, one after the other. The local derivative of a sigmoid is at most 0.25, so each " +
          "layer takes at least three quarters away.",
        "expr",
        SIGMOIDS,
      ],
      [
        "The same in a network of four sigmoid layers: train it, and watch the gradient norms by layer. " +
          "The first layer learns last.",
        "network",
        {data: "moons", widths: "6,6,6,6", activation: "sigmoid", optimizer: "sgd", rate: "0.1"},
      ],
      [
        "What helps: relu, whose slope is 1, and residual connections, along which a gradient passes as " +
          "it is.",
        "network",
        {
          data: "moons",
          widths: "6,6,6,6",
          activation: "relu",
          residual: "1",
          init: "he",
          optimizer: "sgd",
          rate: "0.1",
        },
      ],
    ],
  },
  {
    key: "dead",
    title: "A dead relu",
    steps: [
      ["With b = −3, relu's input is 4: it is open, and gradients pass.", "expr", ONE_PATH],
      [
        "With b = −6 its input is −2. It is closed: its local derivative is 0, and every gradient below " +
          "is 0. No training step will move a, b or d.",
        "expr",
        {...ONE_PATH, "v.b": "-6"},
      ],
      ["Drag b up again until relu opens.", "expr", {...ONE_PATH, "v.b": "-5.1"}],
    ],
  },
  {
    key: "rate",
    title: "A learning rate too high",
    steps: [
      [
        "A rate of 0.03: train, and the loss falls smoothly.",
        "network",
        {data: "circles", widths: "6,4", activation: "tanh", optimizer: "sgd", rate: "0.03"},
      ],
      [
        "A rate of 10: each step jumps over the valley, and the loss does not settle. Go back on the loss" +
          " curve, lower the rate, and train on from there.",
        "network",
        {data: "circles", widths: "6,4", activation: "tanh", optimizer: "sgd", rate: "10"},
      ],
    ],
  },
  {
    key: "reset",
    title: "A forgotten reset",
    steps: [
      ["Nothing is wrong here. Note the loss after 60 steps.", "break", {}],
      [
        "Now gradients are not set to zero between steps. Each step adds to what the last one left, so " +
          "the steps grow like momentum without friction.",
        "break",
        {slip: "V10"},
      ],
    ],
  },
];

// The bar of a lesson: its text, and the way on. `open(page, state)` shows a state; `onLeave` hears of
// a reader who leaves.
export class LessonBar {
  constructor(open, onLeave = () => {}) {
    Object.assign(this, {open, onLeave});
    this.element = h("div", {
      class: "lessonbar",
      role: "region",
      "aria-label": "lesson",
      tabindex: -1,
    });
    this.clear();
  }
  knows(key) {
    return LESSONS.some((l) => l.key === key);
  }
  clear() {
    this.lesson = null;
    this.element.replaceChildren();
    this.element.hidden = true;
  }
  leave() {
    this.clear();
    this.onLeave();
  }
  show(key, step = 0) {
    this.lesson = LESSONS.find((l) => l.key === key) ?? null;
    if (!this.lesson) return this.clear();
    const {steps} = this.lesson;
    this.step = Math.max(0, Math.min(steps.length - 1, step));
    this.element.hidden = false;
    keepingFocus(this.element, () => this.element.replaceChildren(...this.content()));
    const [, page, state] = steps[this.step];
    this.open(page, state);
  }
  content() {
    const {key, title, steps} = this.lesson;
    const next = LESSONS[LESSONS.indexOf(this.lesson) + 1];
    const go = (label, to) => h("button", {class: "primary", onclick: to}, label);
    const isLast = this.step === steps.length - 1;
    return [
      h(
        "div",
        null,
        h("p", {class: "kicker"}, `Lesson: ${title}, ${this.step + 1} of ${steps.length}`),
        h("p", {"aria-live": "polite"}, steps[this.step][0]),
      ),
      h(
        "div",
        {class: "row"},
        h(
          "button",
          {disabled: this.step === 0, onclick: () => this.show(key, this.step - 1)},
          "Back",
        ),
        isLast
          ? next && go(`Next lesson: ${next.title}`, () => this.show(next.key))
          : go("Next", () => this.show(key, this.step + 1)),
        h("button", {onclick: () => this.leave()}, "Leave the lesson"),
      ),
    ];
  }
  state() {
    return this.lesson ? {lesson: this.lesson.key, part: String(this.step)} : {};
  }
}

export function lessonChooser(show) {
  const onChoice = () => {
    if (select.value) show(select.value);
    select.value = "";
  };
  const select = h(
    "select",
    {"aria-label": "lessons", class: "lessons", onchange: onChoice},
    h("option", {value: ""}, "Lessons"),
    ...LESSONS.map((l) => h("option", {value: l.key}, l.title)),
  );
  return select;
}
