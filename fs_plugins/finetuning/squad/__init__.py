"""SQuAD 2.0: answers as spans of a context, or none."""

from fs_plugins.finetuning.squad import criterion, task
