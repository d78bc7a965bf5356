"""Fine-tuning: a folder a benchmark, with its task, criterion, data and metrics; importing this registers all
of them with fairseq."""

from importlib import import_module
from pkgutil import iter_modules

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
