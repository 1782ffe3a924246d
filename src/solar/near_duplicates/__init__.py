"""Photos that are copies, crops or near repetitions of each other."""
