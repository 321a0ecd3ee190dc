"""The special functions: Bessel's, gamma's, the normal distribution's."""
