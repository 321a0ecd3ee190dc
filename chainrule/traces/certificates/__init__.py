"""Numbers of a trace beside finite differences of the ops that made them."""
