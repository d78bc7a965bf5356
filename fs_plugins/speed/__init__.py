"""Parts that make a training faster or save memory; docs/performance.md has the numbers."""
