"""What the user's code says: where a reason stands, what nothing reads, how a line would change."""
