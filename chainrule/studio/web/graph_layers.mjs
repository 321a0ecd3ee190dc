// What of a graph is drawn as SVG: cards, edges below them, and what is sent now above. Moving keeps what
// is drawn: a card or an edge is made anew only after the graph has another `version`.
import {s} from "./dom.mjs";
import {groupCard, nodeCard} from "./graph_cards.mjs";
import {edgeElement} from "./graph_edges.mjs";

export class GraphLayers {
  // `graph` says how nodes and edges look now, and hears of presses and keys.
  constructor(graph) {
    this.graph = graph;
    this.cards = new Map();
    this.lines = new Map();
    this.edgeLayer = s("g", {class: "edges", "aria-hidden": "true"});
    this.cardLayer = s("g");
    this.frontLayer = s("g", {class: "edges", "aria-hidden": "true"});
    this.element = s("g", null, this.edgeLayer, this.cardLayer, this.frontLayer);
  }

  // Removes everything; whether a card had the focus.
  clear() {
    const hadFocus = this.cardLayer.contains(document.activeElement);
    for (const elements of [this.cards, this.lines]) elements.clear();
    for (const layer of [this.cardLayer, this.edgeLayer, this.frontLayer]) layer.replaceChildren();
    return hadFocus;
  }
  focus(key) {
    this.cards.get(key)?.focus({preventScroll: true});
  }

  // These boxes and edges; `entry` is the card that Tab comes to.
  paint(boxes, edges, entry) {
    const keep = new Set(boxes.map((b) => b.key));
    const focused = document.activeElement;
    for (const [key, card] of this.cards) {
      if (keep.has(key) || card === focused) continue;
      card.remove();
      this.cards.delete(key);
    }
    for (const box of boxes) this.placeCard(box, entry);
    this.paintEdges(edges);
  }

  placeCard(box, entry) {
    const {graph} = this;
    let card = this.cards.get(box.key);
    if (!card) {
      card = s("g", {
        class: "card",
        tabindex: -1,
        role: "button",
        "data-key": box.key,
        onclick: () => graph.press(box),
        onkeydown: (e) => graph.key(e, box),
      });
      card.setAttribute("transform", `translate(${box.x - box.wide / 2} ${box.y - box.tall / 2})`);
      this.cards.set(box.key, card);
      this.cardLayer.append(card);
    }
    card.setAttribute("tabindex", box.key === entry ? 0 : -1);
    if (card.version === graph.version) return;
    card.version = graph.version;
    const {parts, classes, label} = box.group
      ? this.groupContent(box)
      : nodeCard(graph.trace, box, graph.look(box.node), graph.chosenNode === box.node);
    card.setAttribute("class", `card ${classes}`);
    card.setAttribute("aria-label", label);
    card.replaceChildren(...parts);
  }
  groupContent(box) {
    const {now, wrong} = this.graph.marks();
    const has = (set) => set.size > 0 && box.group.nodes.some((i) => set.has(i));
    return groupCard(this.graph.trace, box, {now: has(now), wrong: has(wrong)});
  }

  paintEdges(edges) {
    const {graph} = this;
    const keep = new Set(edges.map((e) => e.key));
    for (const [key, line] of this.lines)
      if (!keep.has(key)) {
        line.remove();
        this.lines.delete(key);
      }
    for (const e of edges) {
      const old = this.lines.get(e.key);
      if (old?.version === graph.version) continue;
      const look = graph.edgeLook(e) ?? {};
      const lookKey = `${look.state} ${look.text}`;
      if (old?.lookKey === lookKey) {
        old.version = graph.version;
        continue;
      }
      const line = edgeElement(e, graph.boxes, graph.across, look);
      Object.assign(line, {version: graph.version, lookKey});
      this.lines.set(e.key, line);
      old?.remove();
      (look.text ? this.frontLayer : this.edgeLayer).append(line);
    }
  }
}
