"""Argument parsing: each command's flags, and the function that runs it."""


def main() -> int:
    """Run the command line; returns the exit status."""
    return 2
