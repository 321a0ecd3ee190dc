// Nodes folded into groups: by module, and repeats of one structure into a stack.
//
// A group is a run of nodes that were made one after the other, so the graph of groups has no cycle.
// Leaves (parameters, inputs, constants) go with the first op that reads them.

// The tree: {key, title, children: [group | node id], size, signature, count}. The root is open.
export function buildGroups(trace) {
  const ops = trace.nodes.filter((n) => n.kind === "op").map((n) => n.id);
  const leaves = new Map();
  for (const node of trace.nodes) {
    if (node.kind === "op") continue;
    const user = trace.users[node.id][0] ?? -1;
    leaves.set(user, [...(leaves.get(user) ?? []), node.id]);
  }
  const path = (id) => (trace.nodes[id].module ? trace.nodes[id].module.split(".") : []);
  const root = {key: "", title: trace.name, path: [], children: [...(leaves.get(-1) ?? [])]};
  root.children.push(...groupRuns(trace, ops, 0, path, leaves, ""));
  return finishGroup(trace, compressRepeats(root));
}

function groupRuns(trace, ops, depth, path, leaves, prefix) {
  const out = [];
  for (let i = 0; i < ops.length;) {
    const name = path(ops[i])[depth];
    let end = i + 1;
    if (name === undefined) {
      const own = (leaves.get(ops[i]) ?? []);
      // leaves of the whole program stand outside of modules, parameters inside
      out.push(...own, ops[i]);
      i = end;
      continue;
    }
    while (end < ops.length && path(ops[end])[depth] === name) end++;
    const key = `${prefix}/${name}@${ops[i]}`;
    const children = groupRuns(trace, ops.slice(i, end), depth + 1, path, leaves, key);
    if (children.filter((c) => typeof c === "number" || c).length > 1)
      out.push({key, title: name, path: path(ops[i]).slice(0, depth + 1), children});
    else out.push(...children);
    i = end;
  }
  return out;
}

// Neighbouring groups of one structure, `0`, `1`, `2`, …, become one stack.
function compressRepeats(group) {
  const children = group.children.map((c) => (typeof c === "number" ? c : compressRepeats(c)));
  const out = [];
  for (let i = 0; i < children.length;) {
    let end = i + 1;
    if (typeof children[i] !== "number" && /^\d+$/.test(children[i].title))
      while (end < children.length && typeof children[end] !== "number" && /^\d+$/.test(children[end].title)) end++;
    if (end - i > 2) {
      const parts = children.slice(i, end);
      out.push({key: `${parts[0].key}…`, title: `${parts[0].title} … ${parts.at(-1).title}`, path: group.path,
        children: parts, count: parts.length});
    } else out.push(...children.slice(i, end));
    i = end;
  }
  return {...group, children: out};
}

function finishGroup(trace, group) {
  group.nodes = [];
  for (const child of group.children) {
    if (typeof child === "number") group.nodes.push(child);
    else group.nodes.push(...finishGroup(trace, child).nodes);
  }
  return group;
}

// The groups that are open at first: as many levels as keep at most `limit` boxes in view.
export function openAtFirst(root, limit = 70) {
  const open = new Set([root.key]);
  let count = root.children.length;
  const queue = root.children.filter((c) => typeof c !== "number");
  while (queue.length) {
    const group = queue.shift();
    if (count + group.children.length - 1 > limit) continue;
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
