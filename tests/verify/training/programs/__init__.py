"""Training loops, right and wrong, and small models for them."""
