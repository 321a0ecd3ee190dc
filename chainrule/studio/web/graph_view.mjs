// The graph on screen: cards and edges that can be moved, zoomed, chosen and unfolded.
//
// Near, what is in view is SVG with text; far out, where more than NEAR boxes are in view, all of it
// is drawn on a canvas. So a graph of thousands of boxes moves as smoothly as a small one.
import {h, s} from "./dom.mjs";
import {buildGroups, openAtFirst, visibleBoxes} from "./groups.mjs";
import {layoutGraph} from "./layout.mjs";
import {shapeText, valueText} from "./array_view.mjs";

const NEAR = 260;
const CARD_HEIGHT = 62, CHARACTER = 7.1, LEAST = 96, MOST = 210;

export class GraphView {
  // `look(id)` says how a node is now: {value, gradient, state, marks}; see `cardOf`.
  constructor(trace, {look, edgeLook, onChoose}) {
    Object.assign(this, {trace, look, edgeLook, onChoose});
    this.root = buildGroups(trace);
    this.open = openAtFirst(this.root);
    this.view = {x: 0, y: 0, scale: 1};
    this.cards = new Map();
    this.canvas = h("canvas", {class: "far", "aria-hidden": "true"});
    this.layer = s("g");
    this.edgeLayer = s("g", {class: "edges", "aria-hidden": "true"});
    this.cardLayer = s("g");
    this.layer.append(this.edgeLayer, this.cardLayer);
    this.svg = s("svg", {class: "near", role: "graphics-document", "aria-roledescription": "graph",
      "aria-label": `graph of ${trace.nodes.length} nodes; arrow keys go along its edges`}, this.layer);
    this.element = h("div", {class: "graph"}, this.canvas, this.svg);
    this.listen();
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.element);
  }

  // --- what is drawn

  arrange() {
    const {boxes, boxOf, edges} = visibleBoxes(this.trace, this.root, this.open);
    Object.assign(this, {boxes, boxOf, edges});
    for (const box of boxes) Object.assign(box, this.sizeOf(box));
    this.across = this.chooseDirection();
    const sizes = boxes.map((b) => (this.across ? {along: b.wide, across: b.tall} : {along: b.tall, across: b.wide}));
    const drawn = layoutGraph(sizes, edges, this.across ? {along: 54, across: 20, edge: 14} : {along: 40, across: 22, edge: 16});
    const point = (along, across) => (this.across ? [along, across] : [across, along]);
    boxes.forEach((b, i) => { [b.x, b.y] = point(drawn.centers[i].along, drawn.centers[i].across); });
    edges.forEach((e, k) => {
      e.bends = drawn.bends[k].map((b) => [point(b.from, b.across), point(b.to, b.across)]);
      e.key = `${boxes[e.from].key}→${boxes[e.to].key}`;
      e.span = [Math.min(boxes[e.from].x, boxes[e.to].x), Math.min(boxes[e.from].y, boxes[e.to].y),
        Math.max(boxes[e.from].x, boxes[e.to].x), Math.max(boxes[e.from].y, boxes[e.to].y)];
    });
    const arriving = new Map();
    for (const e of edges) arriving.set(e.to, [...(arriving.get(e.to) ?? []), e]);
    for (const siblings of arriving.values()) {
      siblings.sort((p, q) => (this.across ? boxes[p.from].y - boxes[q.from].y : boxes[p.from].x - boxes[q.from].x));
      siblings.forEach((e, rank) => { e.port = siblings.length < 9 ? (rank + 1) / (siblings.length + 1) - 0.5 : 0; });
    }
    this.extent = point(drawn.extent.along, drawn.extent.across);
    this.cards.clear();
    this.cardLayer.replaceChildren();
    this.edgeLayer.replaceChildren();
  }

  sizeOf(box) {
    if (box.group) return {wide: Math.min(MOST, Math.max(LEAST + 20, box.group.title.length * 7.6 + 70)), tall: CARD_HEIGHT};
    const node = this.trace.nodes[box.node];
    const last = this.trace.sweeps.at(-1);
    const value = Math.max(valueText(node.value).length, last?.gradients.has(box.node) ? valueText(last.gradients.get(box.node)).length : 0);
    const head = node.label.length + (node.kind === "op" ? node.op.length + 4 : 0);
    return {wide: Math.min(MOST, Math.max(LEAST, CHARACTER * Math.max(head, value + 2, 9) + 24)), tall: CARD_HEIGHT};
  }

  chooseDirection() {
    const {clientWidth: w, clientHeight: t} = this.element;
    const longest = this.boxes.length > 1 ? this.depth() : 1;
    return w > 620 && longest <= 9 ? true : t > w || longest > 9 ? false : true;
  }

  depth() {
    const deep = new Int32Array(this.boxes.length);
    let most = 0;
    const into = this.boxes.map(() => []);
    for (const e of this.edges) into[e.to].push(e.from);
    const order = this.boxes.map((_, i) => i).sort((a, b) => this.firstNode(a) - this.firstNode(b));
    for (const i of order) for (const j of into[i]) { deep[i] = Math.max(deep[i], deep[j] + 1); most = Math.max(most, deep[i]); }
    return most + 1;
  }
  firstNode(i) { const b = this.boxes[i]; return b.group ? b.group.nodes.at(-1) : b.node; }

  resized() {
    const {clientWidth: w, clientHeight: t} = this.element;
    if (!w || !t) return;
    const density = globalThis.devicePixelRatio || 1;
    this.canvas.width = w * density;
    this.canvas.height = t * density;
    const first = !this.boxes;
    if (first || this.across !== this.chooseDirection()) this.arrange();
    if (first || !this.moved) this.fit(); else this.paint();
  }

  fit() {
    const {clientWidth: w, clientHeight: t} = this.element;
    const [wide, tall] = this.extent;
    const scale = Math.min(1.25, (w - 32) / Math.max(1, wide), (t - 32) / Math.max(1, tall));
    this.moved = false;
    const readable = Math.max(scale, 0.78);
    this.view = scale >= 0.78 || this.boxes.length > NEAR
      ? {scale, x: (w - wide * scale) / 2, y: (t - tall * scale) / 2}
      : {scale: readable, x: wide * readable < w ? (w - wide * readable) / 2 : 16, y: tall * readable < t ? (t - tall * readable) / 2 : 16};
    this.paint();
  }

  // Bring a node into view without changing the scale.
  reveal(id) {
    const box = this.boxes?.[this.boxOf[id]];
    if (!box) return;
    const {clientWidth: w, clientHeight: t} = this.element;
    const v = this.view;
    const [x, y] = [box.x * v.scale + v.x, box.y * v.scale + v.y];
    const [mx, my] = [Math.min(w / 3, box.wide * v.scale / 2 + 24), Math.min(t / 3, box.tall * v.scale / 2 + 24)];
    if (x < mx || x > w - mx) v.x += w / 2 - x;
    if (y < my || y > t - my) v.y += t / 2 - y;
    this.paint();
  }

  toggle(group) {
    if (this.open.has(group.key)) this.open.delete(group.key); else this.open.add(group.key);
    const anchor = group.nodes[0];
    this.arrange();
    this.paint();
    this.reveal(anchor);
  }
  unfoldTo(id) {
    let grown = false;
    for (let box = this.boxes[this.boxOf[id]]; box?.group; box = this.boxes[this.boxOf[id]]) {
      this.open.add(box.group.key);
      grown = true;
      const {boxes, boxOf} = visibleBoxes(this.trace, this.root, this.open);
      Object.assign(this, {boxes, boxOf});
    }
    if (grown) this.arrange();
  }

  paint() {
    if (!this.boxes || this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paintNow(); });
  }

  paintNow() {
    const {clientWidth: w, clientHeight: t} = this.element;
    const {x, y, scale} = this.view;
    const pad = 160 / scale;
    const window_ = [-x / scale - pad, -y / scale - pad, (w - x) / scale + pad, (t - y) / scale + pad];
    const seen = this.boxes.filter((b) => b.x + b.wide > window_[0] && b.x - b.wide < window_[2] && b.y + b.tall > window_[1] && b.y - b.tall < window_[3]);
    const far = seen.length > NEAR || scale < 0.2;
    this.svg.classList.toggle("hidden", far);
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (far) return this.paintFar(context, seen, window_);
    this.layer.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
    const keep = new Set(seen.map((b) => b.key));
    for (const [key, card] of this.cards) if (!keep.has(key)) { card.remove(); this.cards.delete(key); }
    for (const box of seen) this.placeCard(box);
    const edges = this.edges.filter(({span}) => span[0] < window_[2] && span[2] > window_[0] && span[1] < window_[3] && span[3] > window_[1]);
    this.edgeLayer.replaceChildren(...edges.slice(0, 2 * NEAR).map((e) => this.edgeElement(e)));
  }

  paintFar(context, seen, window_) {
    const density = globalThis.devicePixelRatio || 1;
    const {x, y, scale} = this.view;
    const style = getComputedStyle(this.element);
    const colour = (name) => style.getPropertyValue(`--${name}`);
    context.setTransform(density * scale, 0, 0, density * scale, density * x, density * y);
    context.strokeStyle = colour("edge");
    context.lineWidth = 1 / scale;
    context.globalAlpha = 0.5;
    context.beginPath();
    for (const e of this.edges) {
      if (!(e.span[0] < window_[2] && e.span[2] > window_[0] && e.span[1] < window_[3] && e.span[3] > window_[1])) continue;
      context.moveTo(this.boxes[e.from].x, this.boxes[e.from].y);
      for (const [a, b] of e.bends) { context.lineTo(...a); context.lineTo(...b); }
      context.lineTo(this.boxes[e.to].x, this.boxes[e.to].y);
    }
    context.stroke();
    context.globalAlpha = 1;
    const fills = {op: colour("accent"), input: colour("leaf_rim"), parameter: colour("good"), constant: colour("soft"), group: colour("accent"), now: colour("contrast")};
    for (const [name, fill] of Object.entries(fills)) {
      context.fillStyle = fill;
      context.beginPath();
      for (const b of seen) {
        const now = !b.group && this.look(b.node).state === "now";
        const kind = now ? "now" : b.group ? "group" : this.trace.nodes[b.node].kind;
        if (kind === name) context.rect(b.x - b.wide / 2, b.y - b.tall / 2, b.wide, b.tall);
      }
      context.fill();
    }
  }

  placeCard(box) {
    let card = this.cards.get(box.key);
    if (!card) {
      card = s("g", {class: "card", tabindex: -1, role: "button", "data-key": box.key,
        onclick: () => this.pressed(box), onkeydown: (e) => this.key(e, box)});
      this.cards.set(box.key, card);
      this.cardLayer.append(card);
    }
    card.setAttribute("transform", `translate(${box.x - box.wide / 2} ${box.y - box.tall / 2})`);
    const content = box.group ? this.groupContent(box) : this.nodeContent(box);
    card.setAttribute("class", `card ${content.classes}`);
    card.setAttribute("aria-label", content.label);
    const text = content.classes + content.label;
    if (card.shown !== text) {
      card.shown = text;
      card.replaceChildren(...content.parts);
    }
    card.setAttribute("tabindex", box.key === this.focusKey() ? 0 : -1);
  }
  focusKey() { return this.focused && this.boxes.some((b) => b.key === this.focused) ? this.focused : this.boxes.at(-1)?.key; }

  nodeContent(box) {
    const node = this.trace.nodes[box.node];
    const {value, gradient, come, state, marks = []} = this.look(box.node);
    const isOp = node.kind === "op";
    const name = node.label || (isOp ? "" : node.kind);
    const clip = (text, room) => (text.length * CHARACTER > room ? `${text.slice(0, Math.max(1, Math.floor(room / CHARACTER) - 1))}…` : text);
    const opWide = isOp ? Math.min(node.op.length * 6.6 + 14, box.wide - 16) : 0;
    const parts = [s("rect", {class: "body", width: box.wide, height: box.tall, rx: 9})];
    if (isOp) parts.push(s("rect", {class: "badge", x: 8, y: 7, width: opWide, height: 17, rx: 8.5}),
      s("text", {class: "op", x: 8 + opWide / 2, y: 19, "text-anchor": "middle"}, clip(node.op, box.wide)));
    if (name) parts.push(s("text", {class: "name", x: isOp ? 15 + opWide : 12, y: 20}, clip(name, box.wide - opWide - 26)));
    parts.push(s("text", {class: value === null ? "value faint" : "value", x: 12, y: 39}, value === null ? "·" : clip(value, box.wide - 20)));
    if (gradient !== null) parts.push(s("text", {class: "grad", x: 12, y: 55}, clip(`∂ ${gradient}${come ? ` ${come}` : ""}`, box.wide - 20)));
    for (const mark of marks) parts.push(s("circle", {class: `mark ${mark}`, cx: box.wide - 10, cy: 12, r: 5}));
    const said = [name || node.op, isOp && name ? node.op : "", value === null ? "not computed yet" : `value ${value}`, gradient === null ? "" : `gradient ${gradient} ${come ?? ""}`];
    return {parts, classes: `${node.kind} ${state ?? ""} ${marks.join(" ")} ${this.chosen === box.node ? "chosen" : ""}`, label: said.filter(Boolean).join(", ")};
  }

  groupContent(box) {
    const {group} = box;
    const ops = group.nodes.filter((i) => this.trace.nodes[i].kind === "op").length;
    const state = group.nodes.some((i) => this.look(i).state === "now") ? "now" : "";
    const wrong = group.nodes.some((i) => this.look(i).marks?.includes("wrong"));
    const last = this.trace.nodes[group.nodes.at(-1)];
    const note = group.count ? `${group.count} alike, ${ops} ops` : `${ops} ops`;
    const parts = [s("rect", {class: "behind", x: 4, y: -4, width: box.wide - 8, height: box.tall, rx: 9}),
      s("rect", {class: "body", width: box.wide, height: box.tall, rx: 9}),
      s("text", {class: "name", x: 12, y: 21}, `${group.title} ▸`),
      s("text", {class: "faint", x: 12, y: 38}, note),
      s("text", {class: "faint", x: 12, y: 53}, last.shape?.length ? shapeText(last.shape) : "")];
    if (wrong) parts.push(s("circle", {class: "mark wrong", cx: box.wide - 10, cy: 12, r: 5}));
    return {parts, classes: `group ${state}`, label: `group ${group.title}, ${note}, unfold`};
  }

  edgeElement(e) {
    const [a, b] = [this.boxes[e.from], this.boxes[e.to]];
    const start = this.across ? [a.x + a.wide / 2, a.y] : [a.x, a.y + a.tall / 2];
    const end = this.across ? [b.x - b.wide / 2, b.y] : [b.x, b.y - b.tall / 2];
    if (this.across) end[1] += e.port * b.tall * 0.7; else end[0] += e.port * b.wide * 0.7;
    const look = this.edgeLook(e) ?? {};
    const d = this.curve([start, ...e.bends.flat(), end]);
    const parts = [s("path", {class: `edge ${look.state ?? ""}`, d, "marker-end": null})];
    if (look.text) {
      const [mx, my] = [(start[0] + end[0]) / 2, (start[1] + end[1]) / 2];
      const wide = look.text.length * 6.8 + 12;
      parts.push(s("rect", {class: "edgebox", x: mx - wide / 2, y: my - 10, width: wide, height: 20, rx: 6}),
        s("text", {class: "edgetext", x: mx, y: my + 4, "text-anchor": "middle"}, look.text));
    }
    if (look.state === "now") parts.push(s("circle", {class: "pulse", r: 5}, s("animateMotion", {dur: "0.7s", repeatCount: 1, fill: "freeze", path: d, keyPoints: "1;0", keyTimes: "0;1", calcMode: "linear"})));
    return s("g", null, ...parts);
  }
  curve(points) {
    let path = `M${points[0]}`;
    for (let k = 1; k < points.length; k++) {
      const [[ax, ay], [bx, by]] = [points[k - 1], points[k]];
      path += this.across ? `C${(ax + bx) / 2} ${ay} ${(ax + bx) / 2} ${by} ${bx} ${by}` : `C${ax} ${(ay + by) / 2} ${bx} ${(ay + by) / 2} ${bx} ${by}`;
    }
    return path;
  }

  // --- what the reader does

  pressed(box) {
    this.focused = box.key;
    if (box.group) this.toggle(box.group); else this.onChoose(box.node);
  }
  choose(id) {
    this.chosen = id;
    if (id !== null && this.boxes) { this.unfoldTo(id); this.focused = `n${id}`; }
    this.paint();
  }

  key(e, box) {
    if (e.key === "Enter" || e.key === " ") { e.preventDefault(); return this.pressed(box); }
    const i = this.boxes.indexOf(box);
    const back = this.edges.filter((o) => o.to === i).map((o) => o.from);
    const forth = this.edges.filter((o) => o.from === i).map((o) => o.to);
    const beside = this.boxes.map((b, j) => j).filter((j) => j !== i && Math.abs(this.across ? this.boxes[j].x - box.x : this.boxes[j].y - box.y) < 8)
      .sort((p, q) => (this.across ? this.boxes[p].y - this.boxes[q].y : this.boxes[p].x - this.boxes[q].x));
    const across = (j) => (this.across ? this.boxes[j].y : this.boxes[j].x);
    const before = beside.filter((j) => across(j) < across(i)).at(-1);
    const after = beside.find((j) => across(j) > across(i));
    const [left, right, up, down] = this.across ? [back[0], forth[0], before, after] : [before, after, back[0], forth[0]];
    const next = {ArrowLeft: left, ArrowRight: right, ArrowUp: up, ArrowDown: down}[e.key];
    if (!e.key.startsWith("Arrow")) return;
    e.preventDefault();
    e.stopPropagation();
    if (next === undefined) return;
    this.focused = this.boxes[next].key;
    this.reveal(this.boxes[next].group ? this.boxes[next].group.nodes[0] : this.boxes[next].node);
    requestAnimationFrame(() => requestAnimationFrame(() => this.cards.get(this.focused)?.focus()));
  }

  zoom(factor, cx = this.element.clientWidth / 2, cy = this.element.clientHeight / 2) {
    const v = this.view;
    const scale = Math.min(3, Math.max(0.01, v.scale * factor));
    v.x = cx - (cx - v.x) * scale / v.scale;
    v.y = cy - (cy - v.y) * scale / v.scale;
    v.scale = scale;
    this.moved = true;
    this.paint();
  }

  listen() {
    const from = this.element;
    from.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && !e.metaKey && !document.fullscreenElement && !this.active) return;
      e.preventDefault();
      const box = from.getBoundingClientRect();
      this.zoom(Math.exp(-e.deltaY / 400), e.clientX - box.left, e.clientY - box.top);
    }, {passive: false});
    const held = new Map();
    from.addEventListener("pointerdown", (e) => { held.set(e.pointerId, [e.clientX, e.clientY]); this.active = true; this.dragged = 0; });
    from.addEventListener("pointermove", (e) => {
      if (!held.has(e.pointerId)) return;
      const [px, py] = held.get(e.pointerId);
      const others = [...held].filter(([id]) => id !== e.pointerId);
      if (others.length === 1) {
        const [ox, oy] = others[0][1];
        const box = from.getBoundingClientRect();
        this.zoom(Math.hypot(e.clientX - ox, e.clientY - oy) / Math.max(1, Math.hypot(px - ox, py - oy)), (e.clientX + ox) / 2 - box.left, (e.clientY + oy) / 2 - box.top);
      } else {
        this.dragged += Math.abs(e.clientX - px) + Math.abs(e.clientY - py);
        if (this.dragged > 4 && !from.hasPointerCapture(e.pointerId)) from.setPointerCapture(e.pointerId);
        this.view.x += e.clientX - px;
        this.view.y += e.clientY - py;
        this.moved = true;
        this.paint();
      }
      held.set(e.pointerId, [e.clientX, e.clientY]);
    });
    for (const kind of ["pointerup", "pointercancel", "pointerleave"]) from.addEventListener(kind, (e) => held.delete(e.pointerId));
    from.addEventListener("focusout", () => { this.active = false; });
  }
}
