// Nodes folded into groups: by module, and repeats of one structure into a stack.
//
// A group is a run of nodes that were made one after the other, so the graph of groups has no cycle.
// Parameters and constants go with the first op that reads them; inputs of the program stand outside.

// The tree: {key, title, path, children: [group | node id], nodes, count}. The root is open.
export function buildGroups(trace) {
  const leaves = new Map(); // by the first op that they go with; -1: with none
  const ops = [];
  for (const {id, kind} of trace.nodes) {
    if (kind === "op") {
      ops.push(id);
      continue;
    }
    const user = kind === "input" ? -1 : (trace.users[id][0] ?? -1);
    if (!leaves.has(user)) leaves.set(user, []);
    leaves.get(user).push(id);
  }
  const paths = trace.nodes.map((n) => (n.module ? n.module.split(".") : []));
  const run = {ops, paths, leaves};
  const children = [...(leaves.get(-1) ?? [])];
  addRuns(children, run, 0, ops.length, 0, "");
  return finishGroup(compressRepeats({key: "", title: trace.name, path: [], children}));
}

// Adds to `out` what the ops from `begin` to `end` are, at this depth of their modules.
function addRuns(out, run, begin, end, depth, prefix) {
  const {ops, paths, leaves} = run;
  for (let i = begin; i < end;) {
    const name = paths[ops[i]][depth];
    if (name === undefined) {
      for (const leaf of leaves.get(ops[i]) ?? []) out.push(leaf);
      out.push(ops[i++]);
      continue;
    }
    let last = i + 1;
    while (last < end && paths[ops[last]][depth] === name) last++;
    const key = `${prefix}/${name}@${ops[i]}`;
    const children = [];
    addRuns(children, run, i, last, depth + 1, key);
    if (children.length > 1)
      out.push({key, title: name, path: paths[ops[i]].slice(0, depth + 1), children});
    else out.push(children[0]);
    i = last;
  }
}

// Neighbouring groups of one structure, `0`, `1`, `2`, …, become one stack.
function compressRepeats(group) {
  const children = group.children.map((c) => (typeof c === "number" ? c : compressRepeats(c)));
  const isRepeat = (c) => c !== undefined && typeof c !== "number" && /^\d+$/.test(c.title);
  const out = [];
  for (let i = 0; i < children.length;) {
    let end = i + 1;
    if (isRepeat(children[i])) while (isRepeat(children[end])) end++;
    if (end - i > 2) {
      const parts = children.slice(i, end);
      const title = `${parts[0].title} … ${parts.at(-1).title}`;
      out.push({
        key: `${parts[0].key}…`,
        title,
        path: group.path,
        children: parts,
        count: parts.length,
      });
    } else for (let k = i; k < end; k++) out.push(children[k]);
    i = end;
  }
  return {...group, children: out};
}

function finishGroup(group) {
  group.nodes = [];
  for (const child of group.children) {
    if (typeof child === "number") group.nodes.push(child);
    else for (const id of finishGroup(child).nodes) group.nodes.push(id);
  }
  return group;
}

// The groups that are open at first: as many levels as keep at most `limit` boxes in view. A stack of
// repeats stays folded.
export function openAtFirst(root, limit = 70) {
  const open = new Set([root.key]);
  let count = root.children.length;
  const queue = root.children.filter((c) => typeof c !== "number");
  while (queue.length) {
    const group = queue.shift();
    if (group.count || count + group.children.length - 1 > limit) continue;
    open.add(group.key);
    count += group.children.length - 1;
    queue.push(...group.children.filter((c) => typeof c !== "number"));
  }
  return open;
}

// What is drawn: boxes ({id} of a node or {group}), each with its inputs' boxes, and for each node
// the box that it is seen in.
export function visibleBoxes(trace, root, open) {
  const boxes = [];
  const boxOf = new Int32Array(trace.nodes.length).fill(-1);
  const visit = (group) => {
    for (const child of group.children) {
      if (typeof child === "number") {
        boxOf[child] = boxes.length;
        boxes.push({node: child, group: null, key: `n${child}`, parent: group});
      } else if (open.has(child.key)) visit(child);
      else {
        for (const id of child.nodes) boxOf[id] = boxes.length;
        boxes.push({node: null, group: child, key: child.key, parent: group});
      }
    }
  };
  visit(root);
  const edges = new Map();
  for (const node of trace.nodes) {
    node.inputs.forEach((input, place) => {
      const [from, to] = [boxOf[input], boxOf[node.id]];
      if (from === to || from < 0 || to < 0) return;
      const key = `${from}-${to}`;
      if (!edges.has(key)) edges.set(key, {from, to, pairs: []});
      edges.get(key).pairs.push([input, node.id, place]);
    });
  }
  return {boxes, boxOf, edges: [...edges.values()]};
}

// For each node the innermost group that it is in, {key, parent}; null for the root, which is open.
export function parentKeys(root, count) {
  const around = new Array(count).fill(null);
  const visit = (group, parent) => {
    const own = group === root ? null : {key: group.key, parent};
    for (const child of group.children)
      if (typeof child === "number") around[child] = own;
      else visit(child, own);
  };
  visit(root, null);
  return around;
}
