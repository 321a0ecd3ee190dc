"""What expressions of a version were when it ran, and how gradients depend on each of them."""
