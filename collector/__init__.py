"""Measure, on your own GPUs, which settings to serve a model with; publish the answer as a site."""

__version__ = "0.1.0"
