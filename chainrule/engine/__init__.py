"""The engine: ops and their rules, the graph that they record, tensors, the border to users."""
