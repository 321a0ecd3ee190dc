// Where boxes go: a layered drawing by a fixed number of passes, each linear but for sorting.
//
// 1 layers: one more than the deepest input; later, where edges get shorter by it: a leaf stands just
//   before its first reader.
// 2 bends: an edge over several layers gets a point in each of them.
// 3 order: four sweeps that sort each layer by the mean place of its neighbours.
// 4 places: four sweeps in which each layer settles as near to its neighbours as order and room
//   allow (least squares by pooling adjacent violators), so that what belongs together is in line.
// The same graph gives the same drawing. `along` runs from layer to layer, `across` within one.
const LONGEST = 40; // an edge over more layers is drawn without bends: nobody could follow it

export function layoutGraph(sizes, edges, gap = {along: 56, across: 18, edge: 12}) {
  const count = sizes.length;
  const layer = layersOf(count, edges);
  const net = {layer, above: [], below: [], real: count}; // above: towards inputs
  for (let i = 0; i < count; i++) {
    net.above.push([]);
    net.below.push([]);
  }
  const chains = edges.map((e) => addChain(net, e));
  const layers = [];
  net.layer.forEach((l, i) => (layers[l] ??= []).push(i));
  for (let l = 0; l < layers.length; l++) layers[l] ??= [];
  orderLayers(net, layers);
  const room = net.layer.map((_, i) => (i < count ? sizes[i].across + gap.across : gap.edge));
  const across = settleLayers(net, layers, room);
  let [low, high] = [Infinity, -Infinity];
  across.forEach((x, i) => {
    low = Math.min(low, x - room[i] / 2);
    high = Math.max(high, x + room[i] / 2);
  });
  const {start, depth, end} = layerDepths(layers, sizes, gap.along);
  const center = (i) => ({
    along: start[net.layer[i]] + depth[net.layer[i]] / 2,
    across: across[i] - low,
  });
  const bend = (i) => ({
    from: start[net.layer[i]],
    to: start[net.layer[i]] + depth[net.layer[i]],
    across: across[i] - low,
  });
  return {
    centers: sizes.map((_, i) => center(i)),
    bends: chains.map((chain) => chain.map(bend)),
    extent: {along: end, across: count ? high - low : 0},
  };
}

// Where each layer begins, how deep it is, and where the last one ends.
function layerDepths(layers, sizes, gap) {
  const start = [];
  const depth = layers.map((members) =>
    members.reduce((m, i) => (i < sizes.length ? Math.max(m, sizes[i].along) : m), 0),
  );
  let at = 0;
  depth.forEach((d, l) => {
    start[l] = at;
    at += d ? d + gap : 0;
  });
  return {start, depth, end: Math.max(0, at - gap)};
}

function layersOf(count, edges) {
  const inputs = Array.from({length: count}, () => []);
  const users = Array.from({length: count}, () => []);
  const waits = new Int32Array(count);
  for (const {from, to} of edges) {
    inputs[to].push(from);
    users[from].push(to);
    waits[to]++;
  }
  const layer = new Array(count).fill(0);
  const ready = [];
  for (let i = 0; i < count; i++) if (!waits[i]) ready.push(i);
  for (let k = 0; k < ready.length; k++) {
    for (const u of users[ready[k]]) {
      layer[u] = Math.max(layer[u], layer[ready[k]] + 1);
      if (--waits[u] === 0) ready.push(u);
    }
  }
  // later, where that shortens more edges than it stretches: a leaf of one reader comes along
  const stretched = (i) => inputs[i].filter((j) => inputs[j].length || users[j].length > 1).length;
  for (let k = ready.length - 1; k >= 0; k--) {
    const i = ready[k];
    if (!users[i].length || users[i].length < stretched(i)) continue;
    layer[i] = users[i].reduce((m, u) => Math.min(m, layer[u]), Infinity) - 1;
  }
  return layer;
}

function addChain(net, {from, to}) {
  const chain = [];
  const span = net.layer[to] - net.layer[from];
  if (span <= LONGEST)
    for (let l = net.layer[from] + 1; l < net.layer[to]; l++) {
      chain.push(net.layer.length);
      net.layer.push(l);
      net.above.push([]);
      net.below.push([]);
    }
  const path = [from, ...chain, to];
  for (let k = 0; k + 1 < path.length; k++) {
    net.below[path[k]].push(path[k + 1]);
    net.above[path[k + 1]].push(path[k]);
  }
  return chain;
}

function orderLayers(net, layers) {
  const place = new Float64Array(net.layer.length);
  const number = (members) =>
    members.forEach((i, p) => {
      place[i] = p;
    });
  layers.forEach(number);
  for (let sweep = 0; sweep < 4; sweep++) {
    const down = sweep % 2 === 0;
    const near = down ? net.above : net.below;
    for (let k = 0; k < layers.length; k++) {
      const members = layers[down ? k : layers.length - 1 - k];
      const mean = new Map(
        members.map((i) => [
          i,
          near[i].length ? near[i].reduce((s, j) => s + place[j], 0) / near[i].length : place[i],
        ]),
      );
      members.sort((a, b) => mean.get(a) - mean.get(b) || a - b);
      number(members);
    }
  }
}

function settleLayers(net, layers, room) {
  const across = new Array(net.layer.length).fill(0);
  for (const members of layers)
    settle(
      members,
      members.map(() => 0),
      members.map(() => 1),
      room,
      across,
    );
  for (let sweep = 0; sweep < 4; sweep++) {
    const down = sweep % 2 === 0;
    const near = down ? net.above : net.below;
    for (let k = 0; k < layers.length; k++) {
      const members = layers[down ? k : layers.length - 1 - k];
      const wish = [];
      const weight = [];
      for (const i of members) {
        let [sum, total] = [0, 0];
        for (const j of near[i]) {
          const w = i >= net.real && j >= net.real ? 8 : i >= net.real || j >= net.real ? 2 : 1;
          sum += w * across[j];
          total += w;
        }
        wish.push(total ? sum / total : across[i]);
        weight.push(total || 0.1);
      }
      settle(members, wish, weight, room, across);
    }
  }
  return across;
}

// As near to the wishes as order and distances allow: isotonic regression (Ayer et al., 1955).
function settle(members, wish, weight, room, across) {
  const offsets = [];
  const blocks = [];
  let offset = 0;
  members.forEach((i, k) => {
    if (k) offset += (room[members[k - 1]] + room[i]) / 2;
    offsets.push(offset);
    let block = [wish[k] - offset, weight[k], 1];
    while (blocks.length && blocks.at(-1)[0] > block[0]) {
      const [m, w, n] = blocks.pop();
      block = [(m * w + block[0] * block[1]) / (w + block[1]), w + block[1], n + block[2]];
    }
    blocks.push(block);
  });
  let k = 0;
  for (const [mean, , n] of blocks)
    for (let end = k + n; k < end; k++) across[members[k]] = mean + offsets[k];
}
