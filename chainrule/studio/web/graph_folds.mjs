// Which groups of the graph are open.
import {buildGroups, openAtFirst, parentKeys} from "./groups.mjs";

const isGroup = (child) => typeof child !== "number";

export class GraphFolds {
  constructor(trace) {
    this.root = buildGroups(trace);
    this.open = openAtFirst(this.root);
    this.opened = new Set(); // by a step, not by the reader: they fold again
    this.parents = null;
    this.count = trace.nodes.length;
  }

  get hasGroups() {
    return this.root.children.some(isGroup);
  }

  toggle(key) {
    if (this.open.has(key)) this.fold(key);
    else this.open.add(key);
  }

  fold(key) {
    this.open.delete(key);
    this.opened.delete(key);
  }

  // Folds all groups, or opens as many as at first if all are folded.
  toggleAll() {
    const isFolded = this.open.size === 1;
    this.open = isFolded ? openAtFirst(this.root) : new Set([this.root.key]);
    if (isFolded && this.open.size === 1)
      for (const group of this.root.children.filter(isGroup)) this.open.add(group.key);
    this.opened.clear();
  }

  // Unfolds what these nodes are in, folds what a step before had unfolded. Says whether any changed.
  show(ids) {
    const needed = new Set(ids.flatMap((id) => this.keysAround(id)));
    const superfluous = [...this.opened].filter((key) => !needed.has(key));
    const missing = [...needed].filter((key) => !this.open.has(key));
    for (const key of superfluous) this.fold(key);
    for (const key of missing) {
      this.open.add(key);
      this.opened.add(key);
    }
    return superfluous.length + missing.length > 0;
  }

  // The keys of the groups that a node is in, from the innermost on.
  keysAround(id) {
    this.parents ??= parentKeys(this.root, this.count);
    const keys = [];
    for (let group = this.parents[id]; group; group = group.parent) keys.push(group.key);
    return keys;
  }
}
