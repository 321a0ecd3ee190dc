"""What every module is, and what holds, wraps and describes modules."""
