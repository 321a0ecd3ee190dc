"""What follows from events: names, who holds a graph, layers, units, steps by hand."""
