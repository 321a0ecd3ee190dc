"""What a training loop does, as events: taps of two frameworks, one bus."""
