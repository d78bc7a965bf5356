"""What the scripts prepare_*.py share: raw files to fairseq's binarised data."""
