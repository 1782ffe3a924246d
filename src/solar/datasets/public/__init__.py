"""Public datasets: what they consist of, downloads, checks, ground truths."""
