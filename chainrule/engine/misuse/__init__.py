"""What is wrong with a call: arguments that do not fit, and arrays of other classes."""
