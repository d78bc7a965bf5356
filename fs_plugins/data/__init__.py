"""Pure data: what a batch becomes before it meets a model; independent of models, tasks and criteria."""
