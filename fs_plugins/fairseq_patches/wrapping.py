"""How a function of fairseq is replaced by one that calls it."""

from functools import wraps


def wrap(owner, name: str):
    """Decorator: puts a function in the place of ``owner.name`` and gives it that as its first argument."""
    original = getattr(owner, name)

    def put(function):
        @wraps(original)
        def wrapper(*args, **kwargs):
            return function(original, *args, **kwargs)

        setattr(owner, name, wrapper)
        return function

    return put
