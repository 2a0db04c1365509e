"""Training: Algorithm 2, its settings, the resumable loop, and `scrl.train`."""
