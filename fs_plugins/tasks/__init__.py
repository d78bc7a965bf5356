"""Tasks; importing this registers them with fairseq."""
