"""The verifier: it finds, names, locates and corrects mistakes, and leaves right code alone."""
