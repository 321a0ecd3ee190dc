"""Machine code in this process and on disk, the pool, programs that run on arrays."""
