"""Stages 1 to 4, on the device: window, representation, drift test, report."""
