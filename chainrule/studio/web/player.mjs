// The player: steps through a trace, forward and backward, message by message.
import {h, keepingFocus} from "./dom.mjs";
import {sentenceOf} from "./explain.mjs";
import {findingsList, findingsOf} from "./findings.mjs";
import {GraphView} from "./graph_view.mjs";
import {stepPanel} from "./inspector.mjs";
import {nodePanel} from "./node_panel.mjs";
import {exact, short} from "./numbers.mjs";
import {edgeLook, marksNow, nodeLook, nodesOfStep} from "./player_looks.mjs";
import {playerControls, SPEEDS} from "./player_controls.mjs";
import {canWalkAgain, stepsOf, walkAgain, wrongOrder} from "./walk.mjs";

export class Player {
  // `params` are strings of the address that say where to begin; `onState(params)` hears of changes.
  constructor(trace, {params = {}, onState = () => {}, below = null, wrongMarks = null} = {}) {
    this.onState = onState;
    this.digits = params.digits === "exact" ? "exact" : "short";
    this.speed = 1;
    this.wrongMarks = wrongMarks;
    this.controls = playerControls(this, below);
    this.load(trace, params);
  }

  // --- the state

  load(trace, params = {}) {
    this.trace = trace;
    this.chosenNode = null;
    this.slice = null;
    this.element = null;
    const number = Number(params.sweep ?? trace.sweeps.length - 1);
    this.sweepNumber = trace.sweeps[number] ? number : trace.sweeps.length - 1;
    this.wrong = params.order === "wrong";
    this.useSweep();
    this.position = Math.max(
      0,
      Math.min(this.steps.length, Number(params.step ?? this.steps.length) || 0),
    );
    this.graph?.observer.disconnect();
    this.graph = new GraphView(trace, {
      look: (id) => nodeLook(this, id),
      edgeLook: (e) => edgeLook(this, e),
      marks: () => this.marks,
      onChoose: (id) => this.chooseNode(id),
    });
    this.controls.stage.replaceChildren(this.graph.element, this.controls.view);
    this.controls.fold.hidden = !this.graph.folds.hasGroups;
    const nameOf = (s, i) =>
      `backward ${i + 1} of ${trace.sweeps.length}: ${trace.nameOf(s.result)}`;
    this.controls.sweep.replaceChildren(
      ...trace.sweeps.map((s, i) =>
        h("option", {value: i, selected: i === this.sweepNumber}, nameOf(s, i)),
      ),
    );
    this.controls.sweepLabel.hidden = trace.sweeps.length < 2;
    if (params.node !== undefined && trace.nodes[Number(params.node)])
      this.chosenNode = Number(params.node);
    if (["back", "forth"].includes(params.slice)) this.setSlice(params.slice, true);
    const [index, flat] = (params.element ?? "").split(".").map(Number);
    const message = this.step?.message;
    if (message?.index === index && flat >= 0 && flat < message.contribution?.data?.length)
      this.element = {message, flat};
    this.showStep();
    this.update();
  }

  // The same graph with other numbers: keeps position, choice and view.
  reload(trace) {
    const shape = ({nodes}) => nodes.map((n) => `${n.op}(${n.inputs})`).join();
    const same = shape(trace) === shape(this.trace);
    if (!same) return this.load(trace);
    this.trace = trace;
    this.graph.trace = trace;
    this.useSweep();
    this.position = Math.min(this.position, this.steps.length);
    this.update();
  }

  useSweep() {
    const right = this.trace.sweeps[this.sweepNumber] ?? null;
    this.right = right;
    this.canWalk = right && canWalkAgain(this.trace, right);
    this.sweep =
      right && this.wrong && this.canWalk ? walkAgain(this.trace, right, wrongOrder(right)) : right;
    this.steps = stepsOf(this.trace, this.sweep);
    this.verdicts = new Map();
    for (const {node, certificate} of right?.messages ?? [])
      if (
        certificate &&
        certificate.verdict !== "not checked" &&
        this.verdicts.get(node) !== "wrong"
      )
        this.verdicts.set(node, certificate.verdict === "differs" ? "wrong" : "right");
    this.findings = findingsOf(this.trace, right);
    const list = findingsList(this.trace, this.findings, (m) => this.goToMessage(m));
    this.controls.findings.replaceChildren(...(list ? [list] : []));
    this.madeAt = new Map();
    this.steps.forEach((s, i) => {
      if (s.kind === "forward") this.madeAt.set(s.node, i);
    });
    const first = this.steps.findIndex((s) => s.kind === "seed");
    this.backwardAt = first < 0 ? Infinity : first;
  }

  get step() {
    return this.steps[this.position - 1] ?? null;
  }
  get sentCount() {
    return Math.max(0, this.position - this.backwardAt - 1);
  }
  // The backward pass has begun.
  get isBackward() {
    return Boolean(this.sweep) && this.position > this.backwardAt;
  }
  get show() {
    return this.digits === "exact" ? exact : short;
  }
  get sentence() {
    return sentenceOf(this.trace, this.sweep, this.step, this.sentCount, this.digits);
  }

  state() {
    const out = {step: String(this.position)};
    if (this.chosenNode !== null) out.node = String(this.chosenNode);
    if (this.slice && this.chosenNode !== null) out.slice = this.slice;
    if (this.element) out.element = `${this.element.message.index}.${this.element.flat}`;
    if (this.wrong) out.order = "wrong";
    if (this.digits === "exact") out.digits = "exact";
    if (this.sweepNumber !== this.trace.sweeps.length - 1) out.sweep = String(this.sweepNumber);
    return out;
  }

  valueNow(id) {
    const at = this.madeAt.get(id);
    return at === undefined || at < this.position;
  }
  gradientNow(id) {
    return this.isBackward ? this.sweep.running(id, this.sentCount) : null;
  }

  // --- what the reader does

  goTo(position, {quiet = false} = {}) {
    this.position = Math.max(0, Math.min(this.steps.length, position));
    this.chosenNode = null;
    this.element = null;
    this.slice = this.sliceNodes = null;
    this.showStep();
    this.update(quiet);
  }
  showStep() {
    const {step} = this;
    this.graph.follow(this.chosenNode === null ? nodesOfStep(step) : [this.chosenNode]);
  }
  goToMessage(m) {
    this.goTo(this.backwardAt + 2 + m.index);
  }
  chooseNode(id) {
    this.chosenNode = this.chosenNode === id ? null : id;
    this.element = null;
    if (this.slice) this.setSlice(this.slice, true);
    if (this.chosenNode === null) this.slice = this.sliceNodes = null;
    this.update();
  }
  // Shows what `node`, else the chosen one, depends on ("back") or influences ("forth").
  setSlice(kind, keep = false, node = this.chosenNode) {
    this.chosenNode = node;
    this.slice = this.slice === kind && !keep ? null : kind;
    this.sliceNodes =
      this.slice && this.chosenNode !== null
        ? this.trace.slice(this.chosenNode, this.slice === "forth")
        : null;
    this.update();
  }
  openElement(message, flat) {
    this.element = {message, flat};
    this.update(true);
  }
  setWrong(on) {
    this.wrong = on;
    const atEnd = this.position === this.steps.length;
    this.useSweep();
    this.position = atEnd ? this.steps.length : Math.min(this.position, this.steps.length);
    this.update();
  }

  setDigits(digits) {
    this.digits = digits;
    this.update(true);
  }
  chooseSweep(number) {
    this.sweepNumber = number;
    this.useSweep();
    this.goTo(this.steps.length);
  }

  play(direction) {
    if (this.timer) return this.pause();
    if (direction > 0 && this.position === this.steps.length) this.position = 0;
    const tick = () => {
      this.goTo(this.position + direction);
      if (direction > 0 ? this.position === this.steps.length : this.position === 0)
        return this.pause();
      this.timer = setTimeout(tick, SPEEDS[this.speed][1]);
    };
    this.timer = setTimeout(tick, 0);
    this.update(true);
  }
  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.update(true);
  }
  // When the player is on screen, and when it no longer is.
  start() {
    requestAnimationFrame(() => this.graph.resize());
  }
  stop() {
    if (this.timer) this.pause();
  }

  // --- the page

  get root() {
    return this.controls.root;
  }

  key(e) {
    if (e.target.matches("input, select, textarea")) return;
    const jump = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (jump) this.goTo(this.position + jump);
    else if (e.key === "Home") this.goTo(0);
    else if (e.key === "End") this.goTo(this.steps.length);
    else if (e.key === " " && !e.target.matches("button, [role=button]")) this.play(1);
    else if (e.key === "Escape") {
      this.chosenNode = this.slice = this.sliceNodes = this.element = null;
      this.update();
    } else return;
    e.preventDefault();
  }

  update(quiet = false) {
    const {play, slider, counter, sentence, panel, wrong, wrongLabel, digits} = this.controls;
    slider.max = this.steps.length;
    slider.value = this.position;
    slider.setAttribute("aria-valuetext", `step ${this.position} of ${this.steps.length}`);
    counter.textContent = `${this.position} / ${this.steps.length}`;
    play.textContent = this.timer ? "❚❚ Pause" : "▶ Play";
    wrongLabel.hidden = !this.canWalk;
    wrong.checked = this.wrong;
    digits.checked = this.digits === "exact";
    if (!quiet || !this.timer)
      sentence.textContent = (this.wrong ? "Wrong order. " : "") + this.sentence;
    this.marks = marksNow(this);
    this.graph.setDigits(this.digits);
    keepingFocus(panel, () =>
      panel.replaceChildren(
        this.chosenNode !== null ? nodePanel(this, this.chosenNode) : stepPanel(this),
      ),
    );
    this.graph.choose(this.chosenNode);
    this.onState(this.state());
  }
}
