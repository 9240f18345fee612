"""Benchmarks: they print figures with their spread, and keep nothing."""
