// What the two training pages do alike: they open a worker, ask it for frames, and draw them.
import {onSchemeChange} from "./canvas.mjs";
import {FrameLoop, Interval} from "./frame_loop.mjs";
import {trainingObstacle, trainingWorker} from "./training_worker.mjs";

// Curves are drawn ten times a second: more cannot be read, and they take longer than the rest.
const CURVE_INTERVAL = 100;

// A page has, beside this, `view`, `settings`, the step `target` where it begins, and
//
//   wanted(all)       what the next frame shows; with `all`, everything that a frame can
//   merge(frame)      keeps a frame, and what the frames before have shown and it does not
//   begin()           trains anew
//   redraw(curves)    draws the last frame; `curves`: what changes slowly, too
//   showRewound(…)    the worker went back to a step
export class TrainingPage {
  curveInterval = new Interval(CURVE_INTERVAL);

  get element() {
    return this.view.element;
  }

  // Opens the worker; `onReady` gets what it says of itself.
  open(kind, loader, modules, onReady = () => {}) {
    const obstacle = trainingObstacle();
    if (obstacle) {
      this.view.refuse(obstacle);
      return;
    }
    this.frames = new FrameLoop({
      ask: () => this.ask({type: "frame", ask: this.wanted(false)}),
      merge: (frame) => this.merge(frame),
      draw: () => this.drawFresh(),
    });
    this.worker = trainingWorker(loader, {
      ready: (description) => {
        onReady(description);
        this.begin();
        this.ask({type: "setPace", value: this.settings.pace});
        if (this.target) this.ask({type: "advance", count: this.target});
        this.refresh();
      },
      state: (state) => this.showState(state),
      frame: (frame) => this.frames.arrived(frame),
      failed: ({message}) => this.view.say(`Training has ended: ${message}`),
    });
    this.ask({type: "open", kind, modules});
    this.ignoreScheme = onSchemeChange(() => this.redraw());
    this.sizes = new ResizeObserver(() => this.redraw());
    this.sizes.observe(this.element);
  }

  ask(message) {
    this.worker?.ask(message);
  }

  showState({running, step, stopReason, failed, rewound}) {
    Object.assign(this, {running, step});
    this.view.showRunning(running, stopReason, failed);
    if (stopReason) this.view.say(stopReason);
    if (rewound) this.showRewound(rewound, step);
    if (running) this.frames.start();
    else this.refresh();
  }

  // Draws what has come since it was drawn last.
  drawFresh() {
    this.redraw(this.freshCurves);
    this.freshCurves = false;
    if (!this.running) this.frames.stop();
  }

  // One frame with everything.
  refresh() {
    this.frames.stop();
    this.ask({type: "frame", ask: this.wanted(true)});
  }

  // What the buttons of both pages do.
  trainingHandlers() {
    return {
      run: () => this.ask({type: this.running ? "pause" : "run"}),
      advance: (count) => this.ask({type: "advance", count}),
      pace: (value) => {
        this.settings.pace = value;
        this.ask({type: "setPace", value});
      },
      reset: () => {
        this.ask({type: "pause"});
        this.begin();
        this.view.say("Back at step 0, with the first weights.");
      },
    };
  }

  start() {
    if (this.worker && this.frame) this.refresh();
  }

  stop() {
    this.frames?.stop();
    this.ask({type: "pause"});
  }

  // For good: the worker ends.
  close() {
    if (!this.worker) return;
    this.frames.stop();
    this.ignoreScheme();
    this.sizes.disconnect();
    this.worker.close();
  }
}
