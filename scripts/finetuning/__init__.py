"""What the fine-tunings on GLUE, SQuAD 2.0 and MoleculeNet share."""
