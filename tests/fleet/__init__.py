"""The fleet analyzer: estimators on simulated fleets, readers on files of all kinds, the commands as run."""
