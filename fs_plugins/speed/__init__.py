"""What makes a training as fast, or as small in memory, as docs/performance.md says."""
