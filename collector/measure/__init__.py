"""Edges: start an engine, drive it, read its counters, append rows."""
