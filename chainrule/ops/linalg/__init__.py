"""Linear algebra on matrices in the last two axes; all leading axes are a batch."""
