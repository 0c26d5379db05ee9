"""From readings and their history to findings: pure functions, one file per kind of evidence."""
