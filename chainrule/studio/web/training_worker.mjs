// The worker of a training page: it trains between messages, and answers what the page asks.
//
//   page → worker   {type: "open" | "begin" | "change" | "rewind" | "run" | "pause" | "advance" |
//                          "setPace" | "frame", …}
//   worker → page   {type: "ready" | "state" | "frame" | "failed", …}
//
// The page asks for a frame when it has drawn the last one, so that none waits.
import {permutation, studioRandom} from "./datasets.mjs";
import {GptTrainer} from "./gpt_trainer.mjs";
import {moduleMemory} from "./module_memory.mjs";
import {ParameterLayout, initialBound, initialWeights} from "./network_parameters.mjs";
import {NetworkTrainer, activationNumbers, optimizerNumbers} from "./network_trainer.mjs";
import {StepTable} from "./step_table.mjs";
import {gptFrame, networkFrame, surfaceShades} from "./training_frames.mjs";

// Steps a second of wall time, over the last half second.
export class SpeedMeter {
  constructor() {
    Object.assign(this, {steps: 0, since: performance.now(), value: 0});
  }

  add(steps) {
    this.steps += steps;
  }

  read() {
    const now = performance.now();
    const past = now - this.since;
    if (past > 500) Object.assign(this, {value: (this.steps / past) * 1000, steps: 0, since: now});
    return this.value || (this.steps / Math.max(1, past)) * 1000;
  }
}

export class TrainingServer {
  // `kinds`: of each kind of page how its trainer is made, and what a frame shows of it.
  constructor(scope, load, kinds) {
    Object.assign(this, {scope, load, kinds, running: false, scheduled: false});
    this.pace = 0; // steps a second that are asked for; 0: as many as there can be
    this.channel = new MessageChannel(); // an iteration of the event loop without a wait
    this.channel.port1.onmessage = () => {
      this.scheduled = false;
      this.work();
    };
    this.restartClock();
    let queue = Promise.resolve();
    scope.onmessage = ({data}) => {
      queue = queue.then(() => this[data.type](data)).catch((e) => this.fail(e));
    };
  }

  restartClock() {
    Object.assign(this, {startedAt: performance.now(), done: 0, meter: new SpeedMeter()});
  }

  // Trains for a few milliseconds, then lets messages in.
  work() {
    if (!this.running) return;
    const start = performance.now();
    const before = this.done;
    while (this.running && !this.isAhead() && performance.now() - start < 5) {
      this.trainer.train();
      this.done++;
      if (this.trainer.stopReason) this.running = false;
    }
    this.meter.add(this.done - before);
    if (this.trainer.stopReason) this.sendState();
    this.schedule();
  }

  // More steps are done than the pace asks for.
  isAhead() {
    return this.pace && this.done >= (this.pace * (performance.now() - this.startedAt)) / 1000;
  }

  schedule() {
    if (this.scheduled || !this.running) return;
    this.scheduled = true;
    if (this.pace) setTimeout(() => this.channel.port2.postMessage(0), 4);
    else this.channel.port2.postMessage(0);
  }

  send(type, content) {
    this.scope.postMessage({type, ...content});
  }

  sendState(more = {}) {
    const {step, stopReason, loss} = this.trainer;
    const failed = Boolean(stopReason) && !Number.isFinite(loss);
    this.send("state", {running: this.running, step, stopReason, failed, ...more});
  }

  fail({message}) {
    this.running = false;
    this.send("failed", {message});
  }

  // --- messages of the page

  async open({kind, modules}) {
    const {make, frame} = this.kinds[kind];
    this.trainer = await make(this.load, modules);
    this.makeFrame = frame;
    this.send("ready", {tensors: this.trainer.tensors ?? null});
  }

  begin({args}) {
    this.trainer.begin(...args);
    this.sendState();
  }

  change({args}) {
    this.trainer.change(...args);
    this.sendState();
  }

  rewind({step}) {
    this.running = false;
    this.sendState({rewound: this.trainer.rewind(step)});
  }

  setPace({value}) {
    this.pace = value;
    this.restartClock();
  }

  run() {
    this.running = !this.trainer.stopReason;
    this.restartClock();
    this.sendState();
    this.schedule();
  }

  pause() {
    this.running = false;
    this.sendState();
  }

  advance({count, epochs = 0}) {
    this.running = false;
    const steps = epochs ? epochs * this.trainer.stepsPerEpoch : count;
    for (let i = 0; i < steps && !this.trainer.stopReason; i++) this.trainer.train();
    this.sendState();
  }

  frame({ask}) {
    const speed = this.running ? this.meter.read() : 0;
    this.send("frame", {running: this.running, speed, ...this.makeFrame(this.trainer, ask)});
  }
}

// The worker's program: the loader of modules, and the text of what is above.
export function trainingWorkerText(loader) {
  const parts = [
    studioRandom,
    permutation,
    moduleMemory,
    StepTable,
    activationNumbers,
    optimizerNumbers,
    initialBound,
    initialWeights,
    ParameterLayout,
    NetworkTrainer,
    GptTrainer,
    networkFrame,
    surfaceShades,
    gptFrame,
    SpeedMeter,
    TrainingServer,
  ];
  const kinds =
    "{network: {make: NetworkTrainer.make, frame: networkFrame}, " +
    "gpt: {make: GptTrainer.make, frame: gptFrame}}";
  return [loader, ...parts.map(String), `new TrainingServer(self, load, ${kinds});`].join("\n");
}

const SIMD = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15,
  253, 98, 11,
];

// Why a browser cannot train, in one sentence; "" if it can.
export function trainingObstacle() {
  if (typeof WebAssembly !== "object")
    return (
      "This browser has no WebAssembly, so that nothing can train here; everything else in this " +
      "page works."
    );
  if (!WebAssembly.validate(Uint8Array.from(SIMD)))
    return (
      "This browser's WebAssembly has no SIMD, which training needs: use a version from 2021 or " +
      "later."
    );
  return "";
}

// A worker that trains: it gets what is given to `ask(message)`; `on` has a function for each type
// of its own messages.
export function trainingWorker(loader, on) {
  const url = URL.createObjectURL(
    new Blob([trainingWorkerText(loader)], {type: "text/javascript"}),
  );
  const worker = new Worker(url);
  let early = []; // what a reader asks before the trainer is ready comes after its beginning
  worker.onmessage = ({data}) => {
    const waiting = data.type === "ready" ? early : [];
    if (data.type === "ready") early = null;
    on[data.type]?.(data);
    for (const message of waiting) worker.postMessage(message);
  };
  worker.onerror = (e) => on.failed({message: e.message});
  const ask = (message) =>
    early && message.type !== "open" ? early.push(message) : worker.postMessage(message);
  const close = () => {
    worker.terminate();
    URL.revokeObjectURL(url);
  };
  return {ask, close};
}
