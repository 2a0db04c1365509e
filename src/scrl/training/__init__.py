"""Training: Algorithm 2, its settings and methods, seeds on devices, and the resumable loop."""
