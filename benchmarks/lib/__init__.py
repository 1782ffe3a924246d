"""What several benchmarks share; `python benchmarks/x.py` finds it beside itself."""
