"""Makes the images in screenshots/ with Chromium: `python assets/make_screenshots.py`.

timeline.svg, preview.png (the repository's social preview), picture-light.png and picture-dark.png show a write that
autograd cannot see.
"""

from __future__ import annotations

import sys
import tempfile
from base64 import b64encode
from pathlib import Path
from shutil import which

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "assets" / "screenshots"
sys.path.insert(0, str(ROOT))

from autograder import view  # noqa: E402
from autograder.tape.recording.schema import Recording, from_json  # noqa: E402
from autograder.view.draw.timeline import draw_timeline  # noqa: E402
from autograder.view.scene.timeline import timeline_of  # noqa: E402

WIDTH = 1000


def open_page(browser: Browser, recording: Recording, scheme: str, scale: int) -> Page:
    """Returns a page with the whole picture in its window."""
    look = {"color_scheme": scheme, "device_scale_factor": scale, "reduced_motion": "reduce"}
    page = browser.new_page(viewport={"width": WIDTH, "height": 1000}, **look)
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as file:
        file.write(view.as_html(recording))
        file.flush()
        page.goto(Path(file.name).as_uri())
        page.click(".more > summary")
        page.wait_for_selector(".below .line")
    return page


def write_images(browser: Browser, recording: Recording) -> None:
    """Writes the step of the harmful write as an image, in both colour schemes."""
    harmful = next(step.index for step in recording.steps if any(write.harmed for write in step.writes))
    for scheme in ("light", "dark"):
        page = open_page(browser, recording, scheme, scale=2)
        page.locator(".line button", has_text=recording.steps[harmful].place.text).click()
        page.locator(".sentence").hover()
        page.locator(".autograder").screenshot(path=FOLDER / f"picture-{scheme}.png")
        page.close()


def write_preview(browser: Browser) -> None:
    """Writes the timeline below the project's name, in the size that GitHub asks for."""
    page = browser.new_page(viewport={"width": 1280, "height": 640}, color_scheme="light")
    page.set_content(
        "<body style='margin:0;padding:64px 96px;font:700 40px DejaVu Sans,sans-serif;color:#1b1f24'>Autograder"
        "<p style='font:24px DejaVu Sans,sans-serif;margin:12px 0 28px'>Find out why a PyTorch gradient is wrong</p>"
        f"<img width=1088 src='data:image/svg+xml;base64,{b64encode((FOLDER / 'timeline.svg').read_bytes()).decode()}'>"
    )
    page.screenshot(path=FOLDER / "preview.png")
    page.close()


def main() -> None:
    """Makes all images."""
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        program = which("chromium") or which("google-chrome")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        unseen = from_json((ROOT / "tests" / "view" / "recordings" / "silently_wrong.json").read_bytes())
        (FOLDER / "timeline.svg").write_text(draw_timeline(timeline_of(unseen)), "utf-8")
        write_preview(browser)
        write_images(browser, unseen)
        browser.close()


if __name__ == "__main__":
    main()
