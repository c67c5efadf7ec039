"""The search leads readers to the lesson about each word, and the text of the course is not about notebooks."""

from __future__ import annotations

import re

import pytest
from bs4 import BeautifulSoup

from autograder.course.book import block_pages, notebook_recorder
from autograder.course.book.block_pages import Picture
from autograder.course.book.book_site import page_templates
from autograder.course.book.lesson_blocks import Choice, QuestionBlock
from autograder.course.book.markdown_text import search_entry
from autograder.course.book.notebook_recorder import CellResult
from autograder.course.paths import NOTEBOOKS
from autograder.locale.languages import use_language

SEARCHED = {
    "en": {
        "00": "storage, data_ptr, version counter, rebinding",
        "01": "leaf, leaves, no_grad, in-place, inplace, parameter, freeze",
        "02": "saved tensor, retain_graph, backward twice, anomaly, in place",
        "03": "detach, .data, detach_",
        "04": "embedding, max_norm, batchnorm, batch norm",
        "05": "view, slice, slicing, indexing, unbind, coupling layer",
        "06": "GAN, residual, attention, EMA, exponential moving average, optimizer, numpy, custom function, mark_dirty",
        "07": "RNN, LSTM, hidden state, checkpoint, torch.compile, scheduler, learning rate, clip_grad, "
        "gradient clipping, state_dict, mixed precision, autocast, AMP, "
        "DDP, zero_grad, vmap, EMA, hook, accumulate, gradient accumulation, fine-tuning, MAML",
    },
    "zh-CN": {
        "01": "叶子张量, 原地, no_grad",
        "02": "已保存张量, 两次反向传播",
        "04": "嵌入, 批归一化",
        "05": "视图, 切片, 索引",
        "06": "生成对抗网络, 残差, 注意力, 指数移动平均, 优化器, 自定义函数",
        "07": "RNN, 循环神经网络, 隐藏状态, 检查点, torch.compile, 编译, 调度器, 学习率, 梯度裁剪, 状态字典, 混合精度, 分布式, "
        "梯度清零, vmap, 指数移动平均, 钩子, 梯度累积, 微调",
    },
}
"""Lesson → words that it treats, by a reading of the lessons."""

OF_NOTEBOOKS = r"between the quotes|Shift\+Enter|(next|this|answer's|check's|new) cell|cells? (above|below)|run the cells?|引号之间|单元格"


class SilentShell:
    """A shell that runs nothing."""

    user_ns: dict = {}

    def run(self, text):
        """Return no output."""
        return CellResult("", (), (), None)


@pytest.fixture(scope="module", params=["en", "zh-CN"])
def pages(request):
    """The language, and the sections of each page by the notebook's name; nothing is recorded or drawn."""

    def question(shell, asked, hint):
        kind = notebook_recorder.KINDS[asked.asks]
        return QuestionBlock(asked.name, kind, asked.program, (Choice("correct", "", True),), None)

    with pytest.MonkeyPatch.context() as patched, use_language(request.param):
        patched.setenv("NBGRADER_EXECUTION", "book")
        patched.setattr(notebook_recorder, "start_shell", SilentShell)
        patched.setattr(notebook_recorder, "try_orders", lambda *_: None)
        patched.setattr(notebook_recorder, "_record_question", question)
        patched.setattr(block_pages.BlockPages, "_draw", lambda *given: (Picture(given[2], "", 1, 1, 1), None))
        patched.setattr(block_pages, "as_text", lambda recording: "")
        templates = page_templates()
        templates.globals["repository"] = ""
        blocks = {path.stem: notebook_recorder.record_notebook(path) for path in NOTEBOOKS.glob("*/*.ipynb")}
        yield request.param, {name: block_pages.BlockPages(templates, name).sections(blocks[name]) for name in blocks}


def test_each_searched_word_leads_to_the_lesson_that_treats_it(pages):
    """RNN, hidden state, checkpoint and the others are found in English, and their Chinese words in Chinese."""
    language_code, sections = pages
    entries = [
        search_entry(name, part.title, part.html, part.words) for name, parts in sections.items() for part in parts
    ]

    def found(words):
        return {
            entry[0][:2]
            for entry in entries
            if all(re.search(rf"(?<![a-z]){re.escape(word)}", " ".join(entry[1:]), re.I) for word in words.split())
        }

    searched = [(word, lesson) for lesson, words in SEARCHED[language_code].items() for word in words.split(", ")]
    assert [] == [(word, lesson) for word, lesson in searched if lesson not in found(word)]
    assert set() == found("pneumonia")


def test_the_text_is_not_about_notebooks(pages):
    """No page of the book sends its reader to a cell, except for the section on a cell that was run twice."""
    told = []
    for name, parts in pages[1].items():
        for part in parts:
            page = BeautifulSoup(part.whole, "html.parser")
            for code in page.select("pre, code"):
                code.decompose()
            told += [
                (name, found[0]) for text in page.stripped_strings for found in re.finditer(OF_NOTEBOOKS, text, re.I)
            ]
    assert {"单元格"} >= {words for name, words in told if name.startswith(("02_", "errors"))}
    assert [] == [one for one in told if not one[0].startswith(("02_", "errors"))]
