"""Boxes, graphs, kernels, steps in time, averages and schedules."""
