"""Predictions and labels of a whole split -> numbers; NumPy in, floats out."""
