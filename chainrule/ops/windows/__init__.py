"""Windows that slide over an array: convolution, pooling, resizing, grids."""
