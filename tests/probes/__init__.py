"""The probes inside a node: worker, engines, gate, and what the daemon makes of them."""
