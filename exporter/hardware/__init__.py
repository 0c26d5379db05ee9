"""Everything that touches the machine, one file a source. Knows no check, no metric, no threshold."""
