"""Optimizers, schedules, averages of weights and gradients from parts."""
