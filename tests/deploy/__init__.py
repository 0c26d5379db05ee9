"""What is deployed: the chart and the plain manifests."""
