"""A headless Chromium at the end of two pipes (its DevTools protocol): pages are opened, clicked and asked."""
import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

# Of keys that do something in a browser, not only in its pages.
CODES = {"Tab": 9, "Enter": 13, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def program():
    """Its path; None: there is none here."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def _pipe():
    """With numbers that no shell gives away."""
    ends = os.pipe()
    high = [fcntl.fcntl(e, fcntl.F_DUPFD_CLOEXEC, 20) for e in ends]
    for e in ends:
        os.close(e)
    return high


class Browser:
    def __init__(self, width=1280, height=900):
        to_browser, self._to = _pipe()
        self._from, from_browser = _pipe()
        self._home = tempfile.TemporaryDirectory()
        command = [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                   f"--user-data-dir={self._home.name}", "--remote-debugging-pipe"]
        # The program reads from 3 and writes to 4.
        start = ["bash", "-c", f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser} {to_browser}<&- {from_browser}>&-', *command]
        self._process = subprocess.Popen(start, pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._numbers, self._rest, self.problems = itertools.count(1), b"", []
        self._loaded, self._session = False, None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self.size(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(20)
        os.close(self._to)
        os.close(self._from)
        for _ in range(20):  # what it started may still write
            try:
                return self._home.cleanup()
            except OSError:
                time.sleep(0.1)

    def _message(self, seconds=60):
        end = time.monotonic() + seconds
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._from, 1 << 20)
            if not part:
                raise EOFError("the browser ended")
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(text)
        kind, of = message.get("method"), message.get("params", {})
        if kind == "Runtime.exceptionThrown":
            self.problems.append(of["exceptionDetails"].get("exception", {}).get("description") or of["exceptionDetails"]["text"])
        if kind == "Runtime.consoleAPICalled" and of["type"] in ("error", "warning"):
            self.problems.append(str([a.get("value") for a in of["args"]]))
        if kind == "Log.entryAdded" and of["entry"]["level"] == "error":
            self.problems.append(of["entry"]["text"])
        if kind == "Page.loadEventFired":
            self._loaded = True
        return message

    def _call(self, method, **params):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def size(self, width, height):
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name):
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, path):
        self._loaded = False
        self._call("Page.navigate", url=f"file://{path}")
        while not self._loaded:
            self._message()

    def ask(self, expression):
        """The value of an expression of the page, which may be a promise."""
        r = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise RuntimeError(r["exceptionDetails"].get("exception", {}).get("description") or r["exceptionDetails"]["text"])
        return r["result"].get("value")

    def click(self, selector, x=0.5, y=0.5):
        """In an element, at parts of its width and height."""
        left, top, width, height = self.ask(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()")
        at = {"x": left + x * width, "y": top + y * height}
        self._call("Input.dispatchMouseEvent", type="mouseMoved", **at)
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def drag(self, selector, begin=0.0, end=1.0, steps=60, y=0.5):
        """The pressed mouse over an element from a part of its width to another, one message behind the other as the page takes them."""
        left, top, width, height = self.ask(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; }})()")
        at = [{"x": left + (begin + (end - begin) * k / steps) * width, "y": top + y * height} for k in range(steps + 1)]
        self._call("Input.dispatchMouseEvent", type="mouseMoved", **at[0])
        self._call("Input.dispatchMouseEvent", type="mousePressed", button="left", clickCount=1, **at[0])
        for place in at[1:]:
            self._call("Input.dispatchMouseEvent", type="mouseMoved", button="left", buttons=1, **place)
        self._call("Input.dispatchMouseEvent", type="mouseReleased", button="left", clickCount=1, **at[-1])

    def before_pages(self, script):
        """Runs in each page that is opened, before its own scripts."""
        self._call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        code = {"windowsVirtualKeyCode": CODES[key], "code": "Space" if key == " " else key} if key in CODES else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def offline(self):
        self._call("Network.enable")
        self._call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)

    def media(self, name):
        """As if the page were shown on that: "print", "screen"."""
        self._call("Emulation.setEmulatedMedia", media=name)

    def pdf(self, path):
        """The page on paper of A4."""
        data = self._call("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=False)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def picture(self, path, whole=True):
        """The page, or what is seen of it, as the file's name says: .png or .webp."""
        kind = os.path.splitext(path)[1][1:]
        kwargs = {"quality": 60} if kind == "webp" else {}
        if whole:
            size = self._call("Page.getLayoutMetrics")["cssContentSize"]
            kwargs["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
        data = self._call("Page.captureScreenshot", format=kind, captureBeyondViewport=whole, **kwargs)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
