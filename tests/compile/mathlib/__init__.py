"""The native mathematics against mpmath and the eager engine."""
