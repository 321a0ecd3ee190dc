"""Formulas that training programs are made of, and the small edits that lead to them."""
