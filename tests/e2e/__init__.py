"""The real process, beside real programs of others."""
