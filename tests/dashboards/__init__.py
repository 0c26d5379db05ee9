"""The dashboards: their JSON, and their queries on a real Prometheus over a simulated fleet."""
