"""What scalars cost: ops, loops, chains, and peers that do the same."""
