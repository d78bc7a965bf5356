"""GLUE: classes or scores of sentences and of pairs."""

from fs_plugins.finetuning.glue import task
