"""How well the estimators name the slow link, on fleets with known faults."""
