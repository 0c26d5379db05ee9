"""Each module by itself."""
