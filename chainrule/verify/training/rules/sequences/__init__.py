"""Rules about sequences: positions that are padding, and states that are handed on."""
