"""Functions made of functions: gradients, batches of examples, loops, checkpoints, replays."""
