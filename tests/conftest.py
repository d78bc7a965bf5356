import logging
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
# of the processes that tests start, as scripts/environment.sh sets it
os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT, ROOT / "scripts")))


def pytest_collection_modifyitems(items):
    """Files with slow tests first, so that no worker begins one when the others have nothing left to do."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_terminal_summary(terminalreporter):
    """Ends the output with what was skipped, by reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("skipped, by reason")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count:5}  {reason}")


@pytest.fixture(autouse=True)
def no_log_to_closed_files():
    """Removes the handlers by which commands log to the standard error of the test that called them, and the
    level at which they keep fairseq from logging."""
    root, fairseq = logging.getLogger(), logging.getLogger("fairseq")
    before, level = root.handlers[:], fairseq.level
    yield
    fairseq.setLevel(level)
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler and handler not in before:
            root.removeHandler(handler)


@pytest.fixture(params=["cpu", "cuda"])
def device(request) -> torch.device:
    """Each device that the op has a kernel for; skipped, with the reason, where it is not there."""
    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device: torch.cuda.is_available() is False")
        from fs_plugins.custom_ops import library

        if library.load("cuda") is None:
            pytest.skip("the CUDA op was not built: no libexlm_dag_cuda from these sources")
    return torch.device(request.param)


@pytest.fixture(scope="session")
def shared():
    """shared("data", "glue", ...) -> a file or folder of ../shared; skipped if it is not there."""

    def find(*names: str) -> Path:
        path = ROOT.parent.joinpath("shared", *names)
        if not path.exists():
            pytest.skip("needs real data, which are in no clone but in ../shared")
        return path

    return find


@pytest.fixture
def refused(capsys):
    """refused(main, *arguments): the error of a script, which is one line or more and has status 2."""

    def call(main, *arguments) -> str:
        capsys.readouterr()
        try:
            status = main(list(map(str, arguments)))
        except SystemExit as stop:  # of argparse
            status = stop.code
        assert status == 2
        message = capsys.readouterr().err
        assert "error: " in message and "Traceback" not in message
        return message

    return call


@pytest.fixture(scope="session")
def browser():
    """Selenium's driver of a Chromium; skipped, with the reason, if one of these is not installed."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (pip)")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("chromium and chromedriver are not installed (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(driver)
    with webdriver.Chrome(options=options, service=service) as started:
        started.set_page_load_timeout(120)
        yield started
