"""Networks of hand-written layers: each layer alone, then what they do to each other."""
