"""Makes the images in screenshots/ with Chromium: `python assets/make_screenshots.py`.

timeline.svg, picture-light.png and picture-dark.png show a write that autograd cannot see; steps.gif shows each step of
one that it can.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from shutil import which

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "assets" / "screenshots"
sys.path.insert(0, str(ROOT))

from autograder import tape, view  # noqa: E402
from autograder.tape.recording.schema import Recording  # noqa: E402
from autograder.view.draw.timeline import draw_timeline  # noqa: E402
from autograder.view.scene.timeline import timeline_of  # noqa: E402

MATMULS = """\
import torch

x = torch.tensor([[1.0, 2.0]])
w1 = torch.tensor([[2.0], [1.0]], requires_grad=True)
w2 = torch.tensor([3.0], requires_grad=True)

d = x @ w1
f = d * w2
{write}
f.sum().backward()
"""

WIDTH = 1000
SECONDS = 1.6
"""Time that the animation shows each step."""


def open_page(browser: Browser, recording: Recording, scheme: str, scale: int) -> Page:
    """Returns a page with the whole picture in its window."""
    look = {"color_scheme": scheme, "device_scale_factor": scale, "reduced_motion": "reduce"}
    page = browser.new_page(viewport={"width": WIDTH, "height": 1000}, **look)
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as file:
        file.write(view.as_html(recording))
        file.flush()
        page.goto(Path(file.name).as_uri())
        page.wait_for_selector(".autograder")
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


def write_animation(browser: Browser, recording: Recording) -> None:
    """Writes all steps as one animation."""
    page = open_page(browser, recording, "light", scale=1)
    frames = []
    count = int(page.get_attribute(".slider", "max") or 0) + 1
    for _ in range(count):
        frames.append(Image.open(io.BytesIO(page.locator(".autograder").screenshot())).convert("RGB"))
        page.keyboard.press("ArrowRight") if frames[1:] else page.click("[aria-label=forward]")
        page.locator(".sentence").hover()
    size = (frames[0].width, max(frame.height for frame in frames))
    padded = [Image.new("RGB", size, "white") for _ in frames]
    for sheet, frame in zip(padded, frames, strict=True):
        sheet.paste(frame)
    drawn = [sheet.quantize(64, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE) for sheet in padded]
    drawn[0].save(
        FOLDER / "steps.gif",
        save_all=True,
        append_images=drawn[1:],
        duration=int(1000 * SECONDS),
        loop=0,
        optimize=True,
    )
    page.close()


def main() -> None:
    """Makes all images."""
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        program = which("chromium") or which("google-chrome")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        unseen = tape.record(MATMULS.format(write="d.data[:] = 1"))
        (FOLDER / "timeline.svg").write_text(draw_timeline(timeline_of(unseen)), "utf-8")
        write_images(browser, unseen)
        write_animation(browser, tape.record(MATMULS.format(write="d[:] = 1")))
        browser.close()


if __name__ == "__main__":
    main()
