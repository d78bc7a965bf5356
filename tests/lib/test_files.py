"""Files are written completely or not at all, and read plain or gzip; what is wrong with one is named."""

import gzip

import pytest
from lib.command_line import UserError
from lib.files import read_json, sha256, tsv_line, write_json
from lib.preparing import lines_of, opened

from tests.builders import write_file


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(UserError, match="cannot write .*none/file .No such file or directory"):
        write_json(tmp_path / "none" / "file", {})


def test_json(tmp_path):
    path = tmp_path / "a.json"
    assert read_json(path) is None
    write_json(path, {"a": [1, None]})
    assert read_json(path) == {"a": [1, None]}
    path.write_text("{")
    with pytest.raises(UserError, match="a.json is damaged .*: remove it, or choose another folder"):
        read_json(path)


def test_sha256_is_of_all_content_in_order(tmp_path):
    one, two, both = (write_file(tmp_path / name, name) for name in ("a", "b", "ab"))
    assert sha256(one, two) == sha256(both) != sha256(two, one)


def test_cells():
    assert (
        tsv_line(1, "a\tb\n", "", "=1+1", "@x", " -2", "\udcff=C") == "1\ta b\t\t'=1+1\t'@x\t'-2\t\\udcff=C"
    )


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines(name, tmp_path):
    path = write_file(tmp_path / name, "\ufeffone\r\n\ntwo\u2028\x85half\rline\nlast")
    assert list(lines_of(path)) == [(1, "one"), (2, ""), (3, "two\u2028\x85half\rline"), (4, "last")]
    with opened(path) as file:
        assert file.read().startswith("\ufeffone".encode())


def test_gzip_is_told_by_its_content(tmp_path):
    (tmp_path / "a.txt").write_bytes(gzip.compress(b"text\n"))
    assert list(lines_of(tmp_path / "a.txt")) == [(1, "text")]


def test_files_that_cannot_be_read(tmp_path):
    def refusal(content: bytes | None, name="a.gz") -> str:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError) as error:
            list(lines_of(tmp_path / name))
        return str(error.value)

    assert refusal(None, "none").endswith("none does not exist")
    assert refusal(None, ".").endswith("is not a file")
    packed = gzip.compress(b"some text\n" * 5000)
    damaged = bytearray(packed)
    damaged[40:60] = b"\xff" * 20
    for content in (packed[:-12], packed[: len(packed) // 2], bytes(damaged)):
        assert "a.gz is a damaged or truncated gzip file" in refusal(content)
    assert "is named .gz but is not gzip: rename it" in refusal(b"text\n")
    message = refusal(b"good\nbad \xff\n", "a.txt")
    assert "a.txt, line 2: invalid UTF-8 (invalid start byte at byte 4)" in message
    assert "a.gz, line 1: invalid UTF-8" in refusal(gzip.compress(gzip.compress(b"twice\n")))
