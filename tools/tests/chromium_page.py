"""chromium_page.py: opens one of stepmark's pages in a real Chromium, for tests.

    from chromium_page import Browser, main
    def a_test(browser):
        page = browser.open("report.html", width=390, dark=True)
        browser.hover(".mark"); assert browser.text("#hint") ...
    main("the report's page", [a_test])      # runs the tests, prints the closing line; skips where there is no Chromium

Every open() and every test ends with a look at the console: an error there fails the test.
"""
import base64
import os
import pathlib
import re
import shutil
import sys
import time
import traceback

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys  # for users of this module
except ImportError:
    webdriver = None

LACKING = "left out: it needs Debian's chromium, chromium-driver and python3-selenium (make deps-dev)"


MOST_SECONDS = 120


def is_there():
    return webdriver is not None and shutil.which("chromium") and shutil.which("chromedriver")


class Browser:
    def __init__(self):
        options = webdriver.ChromeOptions()
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--force-color-profile=srgb", "--host-resolver-rules=MAP * ~NOTFOUND"):
            options.add_argument(flag)
        options.binary_location = shutil.which("chromium")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.driver.set_page_load_timeout(MOST_SECONDS)  # a script that never ends is a failure, not a wait
        self.driver.set_script_timeout(MOST_SECONDS)

    def close(self):
        self.driver.quit()

    def screen(self, width=1280, height=900, dark=False):
        """The window's size and the reader's colour scheme, also of the page that is open."""
        send = self.driver.execute_cdp_cmd
        send("Emulation.setDeviceMetricsOverride",
             {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
        send("Emulation.setEmulatedMedia",
             {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def open(self, path, width=1280, height=900, dark=False):
        """Loads the file in a window of that size; returns the seconds until it was loaded."""
        self.screen(width, height, dark)
        begin = time.monotonic()
        self.driver.get(pathlib.Path(path).resolve().as_uri())
        seconds = time.monotonic() - begin
        self.expect_no_errors()
        return seconds

    def expect_no_errors(self):
        said = [line["message"] for line in self.driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]
        assert not said, f"the console says {said}"

    def js(self, code, *arguments):
        """The value of an expression, or of a body that returns one."""
        return self.driver.execute_script(code if "return" in code else "return " + code, *arguments)

    def until(self, expression, seconds=60):
        end = time.monotonic() + seconds
        while not self.js(expression):
            assert time.monotonic() < end, f"not within {seconds} s: {expression}"
            time.sleep(0.02)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def count(self, selector):
        return self.js("document.querySelectorAll(arguments[0]).length", selector)

    def text(self, selector):
        return self.js("document.querySelector(arguments[0]).innerText", selector)

    def click(self, selector):
        self.js("document.querySelector(arguments[0]).scrollIntoView({block: 'center'}); return 0", selector)
        self.one(selector).click()

    def hover(self, selector):
        self.js("document.querySelector(arguments[0]).scrollIntoView({block: 'center'}); return 0", selector)
        ActionChains(self.driver).move_to_element(self.one(selector)).perform()

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def type(self, selector, text):
        self.one(selector).clear()
        self.one(selector).send_keys(text)

    def select(self, selector, value):
        self.js("const e = document.querySelector(arguments[0]); e.value = arguments[1];"
                "e.dispatchEvent(new Event('input', {bubbles: true})); e.dispatchEvent(new Event('change', {bubbles: true}));"
                "return 0", selector, value)

    def expect_no_sideways_scroll(self):
        width = self.js("document.documentElement.scrollWidth")
        assert width <= self.js("document.documentElement.clientWidth"), f"the page is {width} pixels wide"

    def print(self, path):
        """Prints as the page itself asks; returns the number of pages."""
        got = self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False, "preferCSSPageSize": True})
        pdf = base64.b64decode(got["data"])
        pathlib.Path(path).write_bytes(pdf)
        return len(re.findall(rb"/Type\s*/Page[^s]", pdf))

    def picture(self, path):
        """A screenshot of the whole page."""
        clip = {"x": 0, "y": 0, "width": self.js("document.documentElement.clientWidth"), "height": self.js("document.documentElement.scrollHeight"), "scale": 1}
        got = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        pathlib.Path(path).write_bytes(base64.b64decode(got["data"]))


def main(what, tests):
    """Runs tests of one argument, a Browser; ends the process: 0 when all passed, or nothing could be run."""
    if not is_there():
        print(f"{what}: {LACKING}")
        sys.exit(0)
    only = os.environ.get("TESTS", "").split()
    browser = Browser()
    failed = 0
    n = 0
    try:
        for test in tests:
            if only and test.__name__ not in only:
                continue
            n += 1
            try:
                test(browser)
                browser.expect_no_errors()
            except Exception as problem:
                failed += 1
                print(f"{what}: {test.__name__} failed", file=sys.stderr)
                traceback.print_exc()
                if "imed out" in str(problem):  # the browser is lost with it
                    browser.close()
                    browser = Browser()
    finally:
        browser.close()
    print(f"{what}: {n - failed} of {n} tests in Chromium passed")
    sys.exit(1 if failed else 0)
