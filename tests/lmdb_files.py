"""LMDB files for the tests."""

import lmdb


def write_lmdb(path, values):
    """As Uni-Mol's scripts do: counters in ASCII as keys."""
    environment = lmdb.open(str(path), subdir=False, map_size=1 << 30, sync=False)
    with environment, environment.begin(write=True) as transaction:
        for key, value in enumerate(values):
            transaction.put(str(key).encode("ascii"), value)
    path.with_name(f"{path.name}-lock").unlink(missing_ok=True)
    return path
