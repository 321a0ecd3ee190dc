"""Other libraries: their arrays, their spellings, and what PyTorch computes for the same call."""
