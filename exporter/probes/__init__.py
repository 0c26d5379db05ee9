"""Active measurement: short probes of the links inside a node, made only where it is proven free."""
