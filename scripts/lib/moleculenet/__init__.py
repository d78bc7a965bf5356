"""What the scripts for molecular properties share."""
