"""A real headless Chromium, spoken to over a pipe in the DevTools protocol. Standard library only."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from flow import FlowTest

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PROGRAM = next(filter(None, map(shutil.which, NAMES)), None)
STRANGE_HOST = "kiln.test"  # this machine under a name that a browser does not trust
OPTIONS = ("--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
           "--hide-scrollbars", "--no-first-run", "--disable-background-networking", "--use-fake-device-for-media-stream",
           "--use-fake-ui-for-media-stream", f"--host-resolver-rules=MAP {STRANGE_HOST} 127.0.0.1")


# What is wrong with how a page is laid out: labels of charts that overlap, are cut or above 100 %, tiles that leave a gap, the
# same anchor twice, and percent signs that a line may begin with.
FAULTS = """(() => {
  const faults = [];
  const box = e => {
    const range = document.createRange();
    range.selectNodeContents(e);
    return range.getBoundingClientRect();
  };
  for (const figure of document.querySelectorAll('figure.chart')) {
    const labels = [...figure.querySelectorAll('svg text, .plot span, .x-name')].map(e => ({e, text: e.textContent, at: box(e)}));
    labels.forEach(({e, text, at}, i) => {
      const around = (e.closest('svg') || figure).getBoundingClientRect();
      if (at.left < around.left - 1 || at.right > around.right + 1) faults.push('cut: ' + text);
      if (parseFloat(text) > 100 && text.endsWith('%')) faults.push('above all: ' + text);
      for (const other of labels.slice(i + 1))
        if (at.left < other.at.right - 1 && other.at.left < at.right - 1 && at.top < other.at.bottom - 1 && other.at.top < at.bottom - 1)
          faults.push('over each other: ' + text + ', ' + other.text);
    });
  }
  const area = e => e.clientWidth * e.clientHeight;
  for (const tiles of document.querySelectorAll('.tiles'))
    if ([...tiles.children].reduce((sum, tile) => sum + area(tile), 0) < .97 * area(tiles)) faults.push('a gap between tiles');
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  faults.push(...ids.filter((id, i) => ids.indexOf(id) !== i).map(id => 'twice: ' + id));
  for (const e of document.querySelectorAll('body *:not(script, bdi)'))
    for (const node of e.childNodes)
      if (node.nodeType === Node.TEXT_NODE && /\\d %/.test(node.data)) faults.push('apart: ' + node.data);
  return faults;
})()"""


# Works every control of a page as a person would, and closes the picture that one may open.
WORK = """(() => {
  let count = 0;
  const tell = (e, kind) => { e.dispatchEvent(new Event(kind, {bubbles: true})); ++count; };
  for (const select of document.querySelectorAll('main select'))
    for (const option of [...select.options, select.options[0]]) { select.value = option.value; tell(select, 'change'); }
  for (const slider of document.querySelectorAll('main input[type=range]'))
    for (const value of [slider.max, slider.min]) { slider.value = value; tell(slider, 'input'); }
  for (const box of document.querySelectorAll('main input[type=search]'))
    for (const value of ['1', '']) { box.value = value; tell(box, 'input'); }
  for (const button of document.querySelectorAll('main button, main [role=button], main summary')) {
    button.dispatchEvent(new MouseEvent('click', {bubbles: true}));
    document.querySelector('dialog[open]')?.close();
    ++count;
  }
  return count;
})()"""


class Browser:
    """One page, in a `with` statement."""

    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix="kiln-browser-")
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()
        # The browser reads commands from descriptor 3 and answers to 4. Debian's sh knows no descriptor above 9.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(["bash", "-c", script, "bash", PROGRAM, *OPTIONS, f"--user-data-dir={self.profile}"],
                                        pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.unread, self.number, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self.call(part + ".enable")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.unread:
            chunk = os.read(self.answers, 1 << 20)
            if not chunk:
                raise RuntimeError("the browser has ended")
            self.unread += chunk
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        """The result of a DevTools command; what happens meanwhile goes to `events`."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def show(self, width=1100, scheme="light", media=""):
        """How wide the window is, which color scheme its user likes, and the medium ("print")."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url=path.absolute().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def evaluate(self, expression):
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def key(self, name):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def complaints(self):
        """Whatever the page wrote to the console, threw or was refused."""
        told = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}
        return [event for event in self.events if event.get("method") in told]

    def requests(self):
        """Addresses that the page asked for, but for what it holds itself."""
        urls = [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith("data:")]

    def picture(self, path, height=None, top=0):
        """A PNG of the page from `top` on, `height` pixels of it or all."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": top, "width": size["width"], "height": min(size["height"] - top, height or size["height"]), "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))


@unittest.skipUnless(PROGRAM, "no Chromium here: install chromium-headless-shell")
class BrowserCase(FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = cls.enterClassContext(Browser())

    def look_at(self, page, beside=()):
        """Opens a page, which must be quiet, ask for nothing but pictures `beside` it and fit, from narrow to wide, light and dark,
        and on paper."""
        self.assertLess(page.stat().st_size, 10_000_000)
        backgrounds = set()
        for width, scheme in ((390, "light"), (768, "light"), (1200, "dark")):
            self.browser.show(width, scheme)
            self.browser.open(page)
            self.assertEqual(self.browser.complaints(), [])
            self.assertEqual(self.browser.requests(), [page.absolute().as_uri()])
            allowed = {page.absolute().as_uri(), *(path.absolute().as_uri() for path in beside)}
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
            self.assertEqual(self.browser.evaluate(FAULTS), [])
            backgrounds.add(self.browser.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
            self.browser.evaluate(WORK)
            self.assertEqual(self.browser.complaints(), [])
            self.assertLessEqual(set(self.browser.requests()), allowed)
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
        self.assertEqual(len(backgrounds), 2)
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        self.browser.open(page)
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('dialog, .bar-of-choices, .sort').length"), 0)
        self.assertGreater(self.browser.evaluate("document.querySelectorAll('main section').length"), 0)
        self.browser.call("Emulation.setScriptExecutionDisabled", value=False)
        self.browser.open(page)
        self.browser.show(scheme="dark", media="print")
        self.assertEqual(self.browser.evaluate("getComputedStyle(document.documentElement).backgroundColor"),
                         "rgb(255, 255, 255)")
        self.browser.show()
