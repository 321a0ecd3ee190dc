"""Values of rows on arrays and on numbers, and the constants of their formulas."""
