"""eastwest-exporter: which GPU-to-GPU link of this node is slow, and on what evidence."""

__version__ = "0.1.0"
