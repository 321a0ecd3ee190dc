"""Programs as WebAssembly."""
