"""The version of this package, for modules that stand below the package itself."""

__version__ = "0.1.0"
