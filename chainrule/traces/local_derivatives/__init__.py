"""The derivative of one op by one input: its form, its formula, the terms of one element."""
