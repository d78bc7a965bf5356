"""MoleculeNet, and molecules of one's own: properties, with missing labels."""

from fs_plugins.finetuning.moleculenet import criterion, task
