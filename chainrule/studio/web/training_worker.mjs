// The worker of a training page: it trains between messages, and answers what the page asks.
//
//   page → worker   {type: "open" | "begin" | "change" | "rewind" | "run" | "pause" | "advance" | "pace" | "frame", …}
//   worker → page   {type: "ready" | "state" | "frame" | "failed", …}
//
// The page asks for a frame when it has drawn the last one, so that none waits.
import {shuffled, studioRandom} from "./datasets.mjs";
import {GptTrainer} from "./gpt_trainer.mjs";
import {NetworkTrainer, activationNumbers, initialBound, optimizerNumbers} from "./network_trainer.mjs";

// What a trainer's page draws. `ask` is what the page wants to see.
export function networkFrame(trainer, ask) {
  const {curve, snapshots, settings, step, loss, stopped, stepsPerEpoch} = trainer;
  return {
    step, loss, stopped, stepsPerEpoch, settings, norms: trainer.norms(), losses: ask.curve ? trainer.losses() : null,
    weights: ask.curve ? trainer.weights() : null,
    surface: ask.size ? surfaceShades(trainer.surface(ask.size, ask.plane), settings, ask.chosen) : null,
    curve: ask.curve ? curve : null, kept: snapshots.kept.map((s) => s.step),
    origin: {step: trainer.origin.step, fresh: trainer.origin.fresh, weights: trainer.origin.weights},
  };
}

// What the units give over the plane as numbers of shades, 0 for −1 and 255 for 1: of each unit and of
// the output a quarter of the points, one picture after the other; all points of the `chosen` unit, or
// of the output.
export function surfaceShades({size, output, units}, {widths, squared}, chosen) {
  const shade = (v) => Math.max(0, Math.min(255, Math.round((v + 1) * 127.5)));
  const ofOutput = squared ? (z) => shade(z) : (z) => shade(2 / (1 + Math.exp(-z)) - 1);
  const unit = (l, j) => {  // scaled so that its picture uses all shades
    let most = 1;
    for (let i = j; i < units[l].length; i += 48) most = Math.max(most, Math.abs(units[l][i]));
    return (i) => shade(units[l][16 * i + j] / most);
  };
  const all = [...widths.flatMap((n, l) => Array.from({length: n}, (_, j) => unit(l, j))), (i) => ofOutput(output[i])];
  const n = size / 2, pictures = new Uint8Array(all.length * n * n);
  all.forEach((f, k) => {
    for (let at = 0; at < n * n; at++) pictures[k * n * n + at] = f(2 * (at % n) + 2 * Math.floor(at / n) * size);
  });
  const large = chosen?.[0] > 0 && units[chosen[0] - 1] ? unit(chosen[0] - 1, chosen[1]) : all.at(-1);
  return {size, pictures, large: Uint8Array.from({length: size * size}, (_, i) => large(i))};
}

export function gptFrame(trainer, ask) {
  const {step, stopped, settings, history} = trainer;
  return {
    step, stopped, settings, name: trainer.name, losses: Float64Array.from(trainer.losses.slice(ask.from)), from: ask.from,
    norms: trainer.norms(), history: ask.history ? history : null,
    tensor: ask.tensor ? trainer.tensor(ask.tensor) : null,
    attention: ask.attention ? trainer.attention(ask.attention === true ? trainer.name : ask.attention) : null,
    samples: ask.samples ? trainer.samples(ask.samples, ask.temperature) : null,
  };
}

export function serveTraining(scope, load, kinds) {
  let trainer = null, frame = null, running = false, scheduled = false, rate = 0;
  let pace = 0, begun = 0, done = 0;  // steps a second that are asked for; 0: as many as there can be
  const channel = new MessageChannel();  // a turn of the event loop without a wait
  channel.port1.onmessage = () => { scheduled = false; work(); };
  const later = () => {
    if (scheduled || !running) return;
    scheduled = true;
    if (pace) setTimeout(() => channel.port2.postMessage(0), 4);
    else channel.port2.postMessage(0);
  };
  const work = () => {  // trains for a few milliseconds, then lets messages in
    if (!running) return;
    const start = performance.now();
    let count = 0;
    do {
      if (pace && done >= pace * (performance.now() - begun) / 1000) break;
      trainer.train();
      done++;
      count++;
      if (trainer.stopped) { running = false; break; }
    } while (performance.now() - start < 5);
    rate = rate * 0.8 + 0.2 * (count / (performance.now() - start)) * 1000;
    measured.steps += count;
    if (!running) say();
    later();
  };
  const measured = {steps: 0, since: performance.now(), value: 0};
  const speed = () => {  // steps a second of wall time, over the last half second
    const now = performance.now(), past = now - measured.since;
    if (past > 500) Object.assign(measured, {value: measured.steps / past * 1000, steps: 0, since: now});
    return running ? measured.value || rate : 0;
  };
  const say = (more = {}) => scope.postMessage({type: "state", running, step: trainer.step, stopped: trainer.stopped, ...more});
  const actions = {
    async open({kind, modules}) {
      const {make, draw} = kinds[kind];
      trainer = await make(load, modules);
      frame = draw;
      scope.postMessage({type: "ready", tensors: trainer.tensors ?? null});
    },
    begin({args}) { trainer.begin(...args); say(); },
    change({args}) { trainer.change(...args); say(); },
    rewind({step}) { running = false; say({rewound: trainer.rewind(step)}); },
    pace({value}) { [pace, begun, done] = [value, performance.now(), 0]; },
    run() {
      running = !trainer.stopped;
      [begun, done] = [performance.now(), 0];
      Object.assign(measured, {steps: 0, since: performance.now(), value: 0});
      say();
      later();
    },
    pause() { running = false; say(); },
    advance({count, epochs = 0}) {
      running = false;
      const steps = epochs ? epochs * trainer.stepsPerEpoch : count;
      for (let i = 0; i < steps && !trainer.stopped; i++) trainer.train();
      say();
    },
    frame({ask}) { scope.postMessage({type: "frame", running, speed: speed(), ...frame(trainer, ask)}); },
  };
  let queue = Promise.resolve();
  scope.onmessage = ({data}) => {
    queue = queue.then(() => actions[data.type](data)).catch((e) => {
      running = false;
      scope.postMessage({type: "failed", message: e.message});
    });
  };
}

// The worker's program: the loader of modules, and the text of what is above.
export function trainingWorkerText(loader) {
  const parts = [
    studioRandom, shuffled, activationNumbers, optimizerNumbers, initialBound, NetworkTrainer, GptTrainer,
    networkFrame, surfaceShades, gptFrame, serveTraining,
  ];
  return [
    loader, ...parts.map(String),
    "serveTraining(self, load, {network: {make: NetworkTrainer.make, draw: networkFrame}, gpt: {make: GptTrainer.make, draw: gptFrame}});",
  ].join("\n");
}

const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];

// Why a browser cannot train, in one sentence; "" if it can.
export function trainingObstacle() {
  if (typeof WebAssembly !== "object") return "This browser has no WebAssembly, so that nothing can train here; everything else in this page works.";
  if (!WebAssembly.validate(Uint8Array.from(SIMD))) return "This browser's WebAssembly has no SIMD, which training needs: use a version from 2021 or later.";
  return "";
}

// A worker that trains: `ask(message)`, and `on` by type of what it says.
export function trainingWorker(loader, on) {
  const url = URL.createObjectURL(new Blob([trainingWorkerText(loader)], {type: "text/javascript"}));
  const worker = new Worker(url);
  let early = [];  // what a reader asks before the trainer is ready comes after its beginning
  worker.onmessage = ({data}) => {
    const waiting = data.type === "ready" ? early : [];
    if (data.type === "ready") early = null;
    on[data.type]?.(data);
    for (const message of waiting) worker.postMessage(message);
  };
  worker.onerror = (e) => on.failed({message: e.message});
  const ask = (message) => (early && message.type !== "open" ? early.push(message) : worker.postMessage(message));
  return {ask, close: () => { worker.terminate(); URL.revokeObjectURL(url); }};
}
