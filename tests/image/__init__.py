"""The container image, built and run without a Docker engine."""
