// When a page that trains asks for the next frame, and when it draws.
import {calmMotion} from "./canvas.mjs";

// Says whether so many milliseconds have passed since it was last time.
export class Interval {
  constructor(length) {
    Object.assign(this, {length, last: -Infinity});
  }

  // `always`: now is the time, however short ago the last one was.
  due(always = false) {
    const now = performance.now();
    const isDue = always || now - this.last > this.length;
    if (isDue) this.last = now;
    return isDue;
  }
}

// Frames, one for each that the screen shows, twice a second with calm motion: `ask` asks the worker
// for one, `merge` gets what the worker sends, `draw` draws it. The next one is asked for before one
// is drawn, so that it is made meanwhile.
export class FrameLoop {
  constructor({ask, merge, draw}) {
    Object.assign(this, {ask, merge, draw, on: false, waiting: false, pending: false});
    this.drawnAt = 0;
    this.timer = 0;
  }

  start() {
    if (this.on) return;
    this.on = true;
    this.request();
  }

  stop() {
    this.on = this.waiting = this.pending = false;
    cancelAnimationFrame(this.timer);
  }

  arrived(frame) {
    this.waiting = false;
    this.merge(frame);
    if (!this.on) this.draw();
    else if (!this.pending) this.schedule();
    this.pending = this.on;
  }

  request() {
    if (!this.on || this.waiting) return;
    this.waiting = true;
    this.ask();
  }

  schedule() {
    this.timer = requestAnimationFrame((now) => this.paint(now));
  }

  paint(now) {
    if (calmMotion() && now - this.drawnAt < 500) {
      this.schedule();
      return;
    }
    this.drawnAt = now;
    this.pending = false;
    this.request();
    this.draw();
  }
}
