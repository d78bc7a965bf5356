"""Data for tests: files as users bring them, and folders as the scripts make them, small."""
