"""The dashboards as code: `python -m grafana.build` writes grafana/dashboards/*.json. Standard library only."""
