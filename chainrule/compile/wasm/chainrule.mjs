// Runs a WebAssembly module that chainrule wrote: in browsers, in workers, in Node.
//
//   const step = await load(bytes)             an ArrayBuffer or Uint8Array, or a Response of fetch
//   step.inputs.x.set([1, 2, 3])               arrays are views of the module's memory
//   step.call()                                one call; state lives on from call to call
//   step.results.loss[0], step.state["w"]
//   step.loop([{x: [1, 2, 3]}, {x: [4, 5, 6]}]).loss     many calls; one array, result by result
//   step.resize({B: 32})                       sizes of dynamic axes, up to the largest
//   step.reset()                               state and inputs as they were written
const ARRAYS = {
  float64: Float64Array, float32: Float32Array, float16: Uint16Array, bfloat16: Uint16Array,
  int64: BigInt64Array, uint64: BigUint64Array, int32: Int32Array, uint32: Uint32Array,
  int16: Int16Array, uint16: Uint16Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array,
};

async function load(source) {
  const bytes = source instanceof Response ? await source.arrayBuffer() : source;
  const module = await WebAssembly.compile(bytes).catch((e) => {
    throw new Error(`this is no whole WebAssembly module: ${e.message}`);
  });
  const [section] = WebAssembly.Module.customSections(module, "chainrule");
  if (!section) throw new Error("this WebAssembly module was not written by chainrule");
  const about = JSON.parse(new TextDecoder().decode(section));
  if (about.version !== 1) throw new Error(`this loader does not know version ${about.version}`);
  const instance = await WebAssembly.instantiate(module).catch((e) => {
    throw new RangeError(`${about.name} does not get the memory that it needs: ${e.message}`);
  });
  return new Step(instance.exports, about);
}

class Step {
  constructor(code, about) {
    this.code = code;
    this.about = about;
    this.reset();
    for (const kind of ["inputs", "state", "results"]) {
      this[kind] = {};
      for (const entry of about[kind])
        Object.defineProperty(this[kind], entry.name, {enumerable: true, get: () => this.view(entry)});
    }
  }
  reset() { this.code.init(); }
  get sizes() {
    return Object.fromEntries(this.about.sizes.map((s) => [s.name, Number(this.word(s.address)[0])]));
  }
  resize(sizes) {
    for (const [name, n] of Object.entries(sizes)) {
      const size = this.about.sizes.find((s) => s.name === name);
      if (!size) throw new RangeError(`there is no size ${name} in ${this.about.name}`);
      if (!Number.isInteger(n) || n < 0 || n > size.largest)
        throw new RangeError(`${name} is a whole number up to ${size.largest}, not ${n}: write the module with largest={"${name}": ...} for more`);
      this.word(size.address)[0] = BigInt(n);
    }
  }
  word(address) { return new BigInt64Array(this.code.memory.buffer, address, 1); }
  shape(entry, sizes = this.sizes) {
    const of = (n) => Array.isArray(n)
      ? n.reduce((sum, [c, names]) => sum + names.reduce((p, s) => p * sizes[s], c), 0) : n;
    return entry.shape.map(of);
  }
  view(entry) {
    const count = this.shape(entry).reduce((a, b) => a * b, 1);
    const kind = entry.dtype.startsWith("complex") ? `float${entry.dtype.slice(7) / 2}` : entry.dtype;
    const each = kind === entry.dtype ? 1 : 2;  // real and imaginary parts take turns
    return new ARRAYS[kind](this.code.memory.buffer, entry.address, count * each);
  }
  call() {
    this.code.step();
    const outside = this.about.outside;
    const bits = outside ? this.word(outside.address)[0] : 0n;
    if (bits) throw new RangeError(outside.words.filter((_, i) => bits >> BigInt(i) & 1n).join("\n"));
    return this.results;
  }
  loop(calls) {
    const kept = this.about.results.map(() => []);
    for (const inputs of calls) {
      for (const [name, values] of Object.entries(inputs)) {
        if (!(name in this.inputs)) throw new RangeError(`${this.about.name} has no input ${name}; it has ${Object.keys(this.inputs).join(", ")}`);
        const view = this.inputs[name];
        if (values.length !== view.length) throw new RangeError(`${name} has ${view.length} elements, not ${values.length}`);
        view.set(values);
      }
      this.call();
      this.about.results.forEach((entry, i) => kept[i].push(...this.view(entry)));
    }
    return Object.fromEntries(this.about.results.map((entry, i) => [entry.name, kept[i]]));
  }
}
export {load};  // a worker that is a classic script leaves this line out
