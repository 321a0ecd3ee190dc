"""What carries compiled programs: cache, libraries, memory, threads, signals, calls."""
