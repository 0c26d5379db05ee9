"""Judging: replays of hours, and each reason at its threshold."""
