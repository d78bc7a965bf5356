"""Layers of the encoders; independent of tasks and criteria."""
