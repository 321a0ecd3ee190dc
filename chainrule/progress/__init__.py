"""How far a loop is: `track` for a loop of your own."""

from chainrule.progress.tracking import Track, track

__all__ = ["Track", "track"]
