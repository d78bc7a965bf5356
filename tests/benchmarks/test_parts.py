"""The parts of a check on a borrowed machine: whatever ends them, what is known by then is printed."""

import os
import signal
import subprocess
import time

import pytest
from lib.files import ROOT

CHECK = """
source {parts}
fails() {{ echo '| a | 1 |'; echo 'skipping cudagraphs due to x'; return 3; }}
hangs() {{ echo '| b | 2 |'; sleep 300 & echo $! >"$out/child"; wait; }}
part first 60 fails
part second 1 hangs
part third 60 echo '| c | 3 |'
part fourth 60 hangs
part fifth 60 echo '| d | 4 |'
"""


def start(tmp_path, **environment):
    code = CHECK.format(parts=ROOT / "scripts" / "benchmarks" / "parts.sh")
    environment = {**os.environ, "OUT": str(tmp_path / "out"), **environment}
    return subprocess.Popen(["bash", "-c", code], stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize("end", [pytest.param("the time", marks=pytest.mark.slow), "a signal"])
def test_a_part_that_fails_or_hangs_leaves_the_others_and_the_table(end, tmp_path):
    process = start(tmp_path, LIMIT="20" if end == "the time" else "600")
    if end == "a signal":
        deadline = time.monotonic() + 60
        while not (log := tmp_path / "out" / "fourth.log").exists() or not log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    *_, results, table = said.strip().split("\n\n")
    results = [line.split(" after")[0].split(" in ")[0] for line in results.splitlines()[1:]]
    expected = ["first: FAILED", "second: CUT OFF", "third: passed", "fourth: CUT OFF"]
    if end == "the time":
        expected.append("fifth: NOT RUN, the time is over")
    assert results == expected and process.returncode == 1
    assert '1 x "skipping cudagraphs"' in said
    rows = "| a | 1 |\n| b | 2 |\n| c | 3 |\n| b | 2 |"
    assert table == rows == (tmp_path / "out" / "table.md").read_text().strip()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "out" / "child").read_text()), 0)
