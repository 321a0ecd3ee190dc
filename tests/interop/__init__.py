"""Other libraries' arrays and NumPy's protocols."""
