"""What measures: each engine runs in the worker process, and says why where it can't. The table is in worker.py."""
