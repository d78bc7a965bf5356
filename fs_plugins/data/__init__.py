"""Data before they meet a model: text, symbols, samples; independent of models, tasks and criteria."""
