"""What a mistake is called."""
