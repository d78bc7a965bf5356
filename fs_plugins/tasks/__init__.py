"""Tasks; importing this registers them with fairseq."""

from fs_plugins.tasks import glue, molecule_property, repeated_masked_lm, squad2, varied_masked_lm
