"""Benchmarks beside peers, on the same input in the same run."""
