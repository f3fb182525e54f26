"""Chromium, a server process and the page of the editor. Without Chromium the tests are skipped."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install -e '.[dev]'")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "no Chromium: install it (Debian: apt-get install chromium) or name it in TREEFORMER_CHROMIUM"
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\?token=\S+")


def chromium_path() -> str | None:
    """Return the browser, None if there is none."""
    named = os.environ.get("TREEFORMER_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = chromium_path()
    if path is None:
        pytest.skip(INSTALL)
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Server:
    """A process of `treeformer edit`."""

    def __init__(self, images: Path, results: Path | None = None) -> None:
        where = [str(images)] if results is None else [str(images), "--results", str(results)]
        command = [sys.executable, "-m", "treeformer", "edit", *where, "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert ADDRESS.search(line), f"no address: {line!r}"
        self.address = line.strip()

    def kill(self) -> None:
        """End the process as a crash does."""
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def start_server() -> Iterator[Callable[[Path, Path], Server]]:
    """Return a function that serves a folder of images."""
    servers: list[Server] = []

    def start(images: Path, results: Path) -> Server:
        servers.append(Server(images, results))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


class Editor:
    """The page with the few things that the tests do with it. Coordinates are px of the image."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def js(self, expression: str) -> Any:
        """Return the value of an expression; `c` is the controller of the open image."""
        return self.page.evaluate(f"(() => {{ const c = window.treeformer.controller; return {expression}; }})()")

    def wait(self, expression: str, timeout_s: float = 180.0) -> None:
        """Wait until an expression is true."""
        condition = f"() => {{ const c = window.treeformer?.controller; return c && ({expression}); }}"
        self.page.wait_for_function(condition, timeout=timeout_s * 1000)

    def wait_ready(self) -> None:
        self.wait("c.ready && c.stage.complete")

    def open(self, image: str) -> None:
        self.page.click(f'[data-image="{image}"]')
        self.wait(f"c.image === {image!r} && c.ready")

    @property
    def nodes(self) -> dict[int, dict[str, Any]]:
        """The nodes by id, each with its `children`."""
        rows = self.js("c.state.graph.nodes.values().map((n) => ({...n, children: c.state.graph.children(n.id)}))")
        return {row["id"]: row for row in rows}

    @property
    def document(self) -> dict[str, Any]:
        return self.js("c.document(false)")

    @property
    def save_state(self) -> str:
        return self.page.locator("[data-save]").get_attribute("data-save")

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the place on the screen, CSS px."""
        box = self.page.locator("canvas.drawing").bounding_box()
        scale, left, top = self.js("[c.view.scale, c.view.left, c.view.top]")
        return box["x"] + (x - left) * scale, box["y"] + (y - top) * scale

    def click(self, x: float, y: float, *modifiers: str) -> None:
        time.sleep(0.45)  # two clicks within 0.4 s in one place are a double click
        for key in modifiers:
            self.page.keyboard.down(key)
        self.page.mouse.click(*self.at(x, y))
        for key in modifiers:
            self.page.keyboard.up(key)

    def double_click(self, x: float, y: float) -> None:
        time.sleep(0.45)
        self.page.mouse.dblclick(*self.at(x, y))

    def drag(self, start: tuple[float, float], *points: tuple[float, float]) -> None:
        self.page.mouse.move(*self.at(*start))
        self.page.mouse.down()
        for point in points:
            self.page.mouse.move(*self.at(*point), steps=4)
        self.page.mouse.up()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def zoom_to(self, x: float, y: float, scale: float) -> None:
        """Show a place at a scale, CSS px per image px."""
        self.js(f"c.stage.setView(c.view.centeredOn({{x: {x}, y: {y}}}, {scale}))")

    def save(self) -> None:
        self.press("Control+s")
        self.page.wait_for_selector('[data-save="saved"]')


@pytest.fixture
def open_editor(browser) -> Iterator[Callable[..., Editor]]:
    """Return a function that opens an address in a window of its own. Errors of the page fail the test."""
    contexts, errors = [], []

    def open_page(address: str, *, context: Any = None, **options: Any) -> Editor:
        if context is None:
            context = browser.new_context(**({"viewport": {"width": 1200, "height": 800}} | options))
            contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.set_default_timeout(180_000)
        page.goto(address)
        editor = Editor(page)
        editor.wait_ready()
        return editor

    yield open_page
    for context in contexts:
        context.close()
    assert not errors
