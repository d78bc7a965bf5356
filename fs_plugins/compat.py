"""What released fairseq needs on current Python, NumPy and torch; each line says why."""


def apply() -> None:
    """Idempotent."""
