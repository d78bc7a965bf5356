"""Helpers of tests that click and read in the Chromium of the fixture ``browser``."""


def set_width(browser, width: int, height: int = 900) -> None:
    """Lays the page out for a screen of that width, in CSS pixels; Chromium's windows have a least width."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def errors(browser) -> list[str]:
    """What the console has shown since the last call, from warnings on."""
    return [e["message"] for e in browser.get_log("browser") if e["level"] in ("WARNING", "SEVERE")]
