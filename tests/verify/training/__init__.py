"""Training loops under observation: mistakes found, right loops left alone."""
