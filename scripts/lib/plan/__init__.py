"""What is asked for (model, size, recipe, data, ...) as flags of fairseq-train, by kind of training."""
