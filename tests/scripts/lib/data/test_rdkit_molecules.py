"""The molecules of the quickstart: those of RDKit, each once."""

from lib.data import rdkit_molecules as molecules

from tests.support.builders import write_file


def test_molecules_are_read_once_and_the_unreadable_and_large_left_out(tmp_path, monkeypatch):
    """Of every 20th line of RDKit's two files."""
    for name in ("NCI", "WEHI"):
        lines = getattr(molecules, name).read_text().splitlines()
        lines = [*lines[::20], "OCC a", "CCO b", "", "not c", "C" * 51, "C" * 50]
        monkeypatch.setattr(molecules, name, write_file(tmp_path / name, "\n".join(lines) + "\n"))
    monkeypatch.setattr("sys.argv", ["molecules", str(tmp_path / "pretrain.smi")])
    molecules.main()
    found = (tmp_path / "pretrain.smi").read_text().splitlines()
    assert len(set(found)) == len(found) > 550 and {"CCO", "C" * 50} <= {*found}
    assert not {"OCC", "not", "C" * 51} & {*found}
