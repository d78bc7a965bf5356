"""The paper's study of [MASK] as runs: what each figure needs, running it, reading what came out."""
