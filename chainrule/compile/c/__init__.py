"""Programs as C99 that a person can read: one file that needs only the C library, and its data.

* `export` is the door, `source` puts the file together, `main` is its end and what that reads.
* `phases` tells forward, backward and update apart, each of which is scheduled by itself.
* `expressions`, `statements` and `functions` say loops in C; `names` finds the user's names.
"""
