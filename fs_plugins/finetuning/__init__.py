"""Fine-tuning: a folder a benchmark, with its task, criterion, data and metrics; importing this registers
them with fairseq."""

from fs_plugins.finetuning import glue, moleculenet, squad
