// The arrays of a loaded module, each at its largest, and the size of what one call reads.
// Runs in a worker; the page sends the text of this function there (training_worker.mjs).

export function moduleMemory(module) {
  const {code, about} = module;
  const {buffer} = code.memory;
  const arrays = {};
  for (const {name, dtype, address, bytes} of [...about.inputs, ...about.state, ...about.results]) {
    const kind = dtype === "int64" ? BigInt64Array : Float64Array;
    arrays[name] = new kind(buffer, address, bytes / 8);
  }
  return {
    run: code.step,
    reset: () => module.reset(),
    arrays,
    size: new BigInt64Array(buffer, about.sizes[0].address, 1),
  };
}
