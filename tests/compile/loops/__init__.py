"""The loop language: its expressions, its checker, the rules that rewrite programs."""
