// The graph on screen: cards and edges that can be moved, zoomed, chosen and unfolded.
//
// Near, what is in view is SVG with text; far out, where more than NEAR boxes are in view, all of it
// is drawn on a canvas. So a graph of thousands of boxes moves as smoothly as a small one.
import {h, s} from "./dom.mjs";
import {arrangeBoxes, isAcross} from "./graph_arrangement.mjs";
import {clearCanvas, paintFar} from "./graph_far.mjs";
import {GraphFolds} from "./graph_folds.mjs";
import {listenToGestures} from "./graph_gestures.mjs";
import {GraphLayers} from "./graph_layers.mjs";
import {neighbourOf, withinRoom} from "./graph_moves.mjs";

const NEAR = 260;
const SMALLEST = 0.2;
const READABLE = 0.82;
const LARGEST_FIT = 1.25;
const BAR = 40; // the height of the buttons below

export class GraphView {
  // `look(id)` and `edgeLook(edge)` say how a node and an edge are now; `now` and `wrong` are sets of
  // nodes; `onChoose(id)` hears of a card that was pressed.
  constructor(trace, {look, edgeLook, marks, onChoose}) {
    Object.assign(this, {trace, look, edgeLook, marks, onChoose});
    this.folds = new GraphFolds(trace);
    this.view = {x: 0, y: 0, scale: 1};
    this.version = 0;
    this.digits = "short";
    this.subjects = []; // the nodes that are followed
    this.layers = new GraphLayers(this);
    this.canvas = h("canvas", {class: "far", "aria-hidden": "true"});
    this.svg = s(
      "svg",
      {
        class: "near",
        role: "graphics-document",
        "aria-roledescription": "graph",
        "aria-label": `graph of ${trace.nodes.length} nodes; arrow keys go along its edges`,
      },
      this.layers.element,
    );
    this.element = h("div", {class: "graph", "aria-busy": "true"}, this.canvas, this.svg);
    listenToGestures(this.element, this);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.element);
  }

  // --- Where boxes are

  arrange() {
    this.refocus = this.layers.clear();
    const {root, open} = this.folds;
    Object.assign(this, arrangeBoxes(this.trace, root, open, this.room, this.digits));
  }
  setDigits(digits) {
    if (this.digits === digits) return;
    this.digits = digits;
    if (this.boxes) {
      this.arrange();
      this.refresh();
    }
  }
  get room() {
    return [this.element.clientWidth, this.element.clientHeight];
  }

  // --- The view

  resize() {
    const {clientWidth: w, clientHeight: t} = this.element;
    if (!w || !t) return;
    const density = globalThis.devicePixelRatio || 1;
    [this.canvas.width, this.canvas.height] = [w * density, t * density];
    const first = !this.boxes;
    if (first || this.across !== isAcross(this.depth, this.room)) this.arrange();
    if (first || !this.isMoved) {
      this.fit();
      this.follow(this.subjects);
    }
    this.paint();
  }

  fit() {
    const {clientWidth: w, clientHeight: t} = this.element;
    const [wide, tall] = this.extent;
    const whole = Math.min(
      LARGEST_FIT,
      (w - 32) / Math.max(1, wide),
      (t - BAR - 24) / Math.max(1, tall),
    );
    const scale = this.boxes.length > NEAR ? whole : Math.max(whole, READABLE);
    const at = (room, size) => (size * scale < room - 8 ? (room - size * scale) / 2 : 16);
    this.isMoved = false;
    this.view = {scale, x: at(w, wide), y: at(t - BAR, tall) + (tall * scale < t - BAR ? 0 : 6)};
    this.paint();
  }
  // All of it, however small.
  fitAll() {
    const {clientWidth: w, clientHeight: t} = this.element;
    const [wide, tall] = this.extent;
    const scale = Math.min(LARGEST_FIT, (w - 32) / Math.max(1, wide), (t - 40) / Math.max(1, tall));
    this.view = {scale, x: (w - wide * scale) / 2, y: (t - tall * scale) / 2};
    this.isMoved = true;
    this.paint();
  }

  zoom(factor, cx = this.element.clientWidth / 2, cy = this.element.clientHeight / 2) {
    const v = this.view;
    const scale = Math.min(3, Math.max(0.01, v.scale * factor));
    this.view = {
      scale,
      x: cx - ((cx - v.x) * scale) / v.scale,
      y: cy - ((cy - v.y) * scale) / v.scale,
    };
    this.isMoved = true;
    this.paint();
  }
  move(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.isMoved = true;
    this.paint();
  }

  // Bring a node into view without changing the scale.
  reveal(id) {
    const box = this.boxes?.[this.boxOf[id]];
    if (!box) return;
    const {clientWidth: w, clientHeight: t} = this.element;
    const v = this.view;
    const [x, y] = [box.x * v.scale + v.x, box.y * v.scale + v.y];
    const [mx, my] = [
      Math.min(w / 2.2, (box.wide * v.scale) / 2 + 24),
      Math.min(t / 2.2, (box.tall * v.scale) / 2 + 56),
    ];
    if (x < mx || x > w - mx) v.x += w / 2 - x;
    if (y < my || y > t - my) v.y += t / 2 - y;
    const [wide, tall] = this.extent;
    v.x = withinRoom(v.x, wide * v.scale, w);
    v.y = withinRoom(v.y, tall * v.scale, t - BAR);
    this.paint();
  }

  // --- Folding

  toggle(group) {
    this.folds.toggle(group.key);
    this.arrange();
    this.focusedKey = this.boxes[this.boxOf[group.nodes[0]]].key;
    this.reveal(group.nodes[0]);
  }
  // Folds a group that is open, as its key says.
  fold(key) {
    this.folds.fold(key);
    this.arrange();
    this.paint();
  }

  // Folds all groups, or opens them.
  foldAll() {
    this.folds.toggleAll();
    this.arrange();
    this.fit();
  }

  // Show these nodes: unfold what they are in, fold what a step before had unfolded.
  follow(ids) {
    this.subjects = ids;
    if (!this.boxes) return;
    if (this.folds.show(ids)) this.arrange();
    for (const id of [...ids].reverse()) this.reveal(id); // the first is in view for certain
  }

  // --- Painting

  refresh() {
    this.version++;
    this.paint();
  }
  paint() {
    if (!this.boxes || this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paintNow();
      this.element.removeAttribute("aria-busy"); // it waited for its first picture
    });
  }

  paintNow() {
    const {clientWidth: w, clientHeight: t} = this.element;
    const {x, y, scale} = this.view;
    const pad = 160 / scale;
    const [left, top, right, low] = [
      -x / scale - pad,
      -y / scale - pad,
      (w - x) / scale + pad,
      (t - y) / scale + pad,
    ];
    const seen = this.boxes.filter((b) => b.x > left && b.x < right && b.y > top && b.y < low);
    const isSeen = ({span}) => span[0] < right && span[2] > left && span[1] < low && span[3] > top;
    const edges = this.edges.filter(isSeen);
    const far = seen.length > NEAR || scale < SMALLEST;
    if (far && this.svg.contains(document.activeElement)) this.element.parentElement?.focus();
    this.svg.classList.toggle("hidden", far);
    if (far || this.wasFar) clearCanvas(this.canvas);
    this.wasFar = far;
    if (far)
      return paintFar(this.canvas, this.view, seen, edges, this.boxes, (b) => this.kindOf(b));
    this.layers.element.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
    this.layers.paint(seen, edges.slice(0, 2 * NEAR), this.focusKey());
    if (!this.refocus) return;
    this.refocus = false;
    this.layers.focus(this.focusKey());
  }
  kindOf(b) {
    const {now, wrong} = this.marks();
    if (b.group) return "group";
    return now.has(b.node) ? "now" : wrong.has(b.node) ? "wrong" : this.trace.nodes[b.node].kind;
  }

  // --- What the reader does

  // The card that Tab comes to.
  focusKey() {
    return this.focusedKey && this.boxes[this.boxNumber(this.focusedKey)]
      ? this.focusedKey
      : this.boxes.at(-1)?.key;
  }
  boxNumber(key) {
    if (this.numberedBoxes !== this.boxes) {
      this.numberedBoxes = this.boxes;
      this.numbers = new Map(this.boxes.map((b, i) => [b.key, i]));
    }
    return this.numbers.get(key);
  }

  press(box) {
    this.focusedKey = box.key;
    if (box.group) this.toggle(box.group);
    else this.onChoose(box.node);
  }
  choose(id) {
    this.chosenNode = id;
    if (id !== null && this.boxes) {
      this.follow([id]);
      this.focusedKey = `n${id}`;
    }
    this.refresh();
  }

  key(e, box) {
    if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      e.stopPropagation();
      return this.press(box);
    }
    if (e.key === "Backspace" && box.parent !== this.folds.root) {
      e.preventDefault();
      this.focusedKey = box.parent.key;
      return this.fold(box.parent.key);
    }
    if (!e.key.startsWith("Arrow")) return;
    e.preventDefault();
    e.stopPropagation();
    const next = neighbourOf(this, this.boxNumber(box.key), e.key);
    if (next === undefined) return;
    this.focusedKey = this.boxes[next].key;
    this.reveal(this.boxes[next].group?.nodes[0] ?? this.boxes[next].node);
    this.paintNow();
    this.layers.focus(this.focusedKey);
  }
}
