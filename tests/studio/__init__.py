"""The pages that `chainrule play` and reports write, in a browser and in Node."""
