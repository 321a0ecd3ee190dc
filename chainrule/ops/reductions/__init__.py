"""Many elements to fewer: sums, extrema, norms, running results, distances."""
