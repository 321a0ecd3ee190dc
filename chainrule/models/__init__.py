"""Models made of `chainrule.nn`: GPT (also on scalars), MLP."""
