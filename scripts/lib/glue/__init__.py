"""GLUE: its tasks, their files, fine-tuning on them, and the paper's tables 3 and 11."""
