"""The command line: `chainrule train`, `chainrule sample`."""
