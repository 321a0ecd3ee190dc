"""Programs as C99 that a person can read: one file that needs only the C library, and its data.

`phases` tells forward, backward and update apart, each of which is scheduled by itself;
`expressions`, `statements` and `functions` say its loops in C; `source` puts the file together;
`names` finds out what the user calls things; `main` is the end of the file and what that reads;
`export` is the door.
"""
