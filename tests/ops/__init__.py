"""The op table's tests: sample arguments, checkers, and what is generated from both."""
