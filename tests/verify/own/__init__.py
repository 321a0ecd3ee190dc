"""Functions, modules and ops of chainrule as subjects."""
