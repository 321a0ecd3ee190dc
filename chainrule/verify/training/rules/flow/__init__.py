"""How large gradients are, layer by layer."""
