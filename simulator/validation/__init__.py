"""Predictions against what others measured and published."""
