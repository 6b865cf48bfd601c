"""Other people's benchmarks: their output becomes readings, each with its unit, its direction and its line."""
