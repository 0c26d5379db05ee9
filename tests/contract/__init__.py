"""One suite for every implementation of a seam: real, recorded, simulated."""
