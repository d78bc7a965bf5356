"""Tasks; importing this registers them with fairseq."""

from fs_plugins.tasks import glue, masked_lm, molecule_property, squad2
