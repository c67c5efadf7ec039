"""The plots' data agree with the recording."""

import matplotlib as mpl
import pytest

from autograder.locale.languages import speaking
from autograder.view.draw import plots

mpl.use("Agg")


def test_versions_rise_where_a_counter_counted(recorded):
    """The counter of the preallocated output goes up by one at each of the loop's twelve writes."""
    axes = plots.plot_versions(recorded("loop"))
    line = next(line for line in axes.lines if line.get_label() == "out")

    assert (0, 12) == (min(line.get_ydata()), max(line.get_ydata()))
    assert 12 == sum(line.get_label() == "write, counted" for line in axes.lines)


def test_a_write_that_nobody_counted_is_marked(recorded):
    """The `.data` write is a cross on d's flat line."""
    axes = plots.plot_versions(recorded("silently_wrong"))
    line = next(line for line in axes.lines if line.get_label() == "d")

    assert {0} == set(line.get_ydata())
    assert "write, not counted" in {line.get_label() for line in axes.lines}


def test_wrong_elements_stand_beside_the_line(recorded):
    """The wrong gradient is counted as wrong, the right one as right."""
    recording = recorded("silently_wrong")

    assert ["wrong: 1"] == [text.get_text() for text in plots.plot_gradients(recording, "w2").get_legend().get_texts()]
    assert ["right: 2"] == [text.get_text() for text in plots.plot_gradients(recording, "w1").get_legend().get_texts()]


def test_an_unknown_leaf_is_named(recorded):
    """The message names the leaves of the verdict."""
    with pytest.raises(KeyError, match="the verdict has w1, w2"):
        plots.plot_gradients(recorded("silently_wrong"), "w3")


def test_without_a_gradient_there_is_no_plot(recorded):
    """A run that raised has no gradients to compare."""
    with pytest.raises(ValueError, match="has no gradient to compare"):
        plots.plot_gradients(recorded("raises_backward"), "w2")


def test_losses_are_drawn_with_their_ends():
    """One line for each run, with different dashes; the legend has the last loss."""
    axes = plots.plot_losses({"as written": [1.0, 0.1], "as meant": [1.0, 0.01]})
    assert [[1.0, 0.1], [1.0, 0.01]] == [list(line.get_ydata()) for line in axes.lines]
    assert 2 == len({line.get_linestyle() for line in axes.lines})
    assert ["as written: 0.1 at the end", "as meant: 0.01 at the end"] == [
        t.get_text() for t in axes.get_legend().get_texts()
    ]


@pytest.mark.parametrize(
    ("fonts", "label", "told"),
    [
        (("DejaVu Serif",), "损失", "as written：最后是 0.1"),
        ((), "loss", "as written: 0.1 at the end"),
    ],
)
def test_a_plot_is_in_the_reader_s_language_where_a_font_has_its_letters(monkeypatch, fonts, label, told):
    """The words are Chinese and each text knows where to find letters; without a font they are English, and no empty boxes."""
    monkeypatch.setattr(plots, "font_families", lambda: fonts)
    with speaking("zh-CN"):
        axes = plots.plot_losses({"as written": [1.0, 0.1]})
    (text,) = axes.get_legend().get_texts()
    assert [label, told] == [axes.get_ylabel(), text.get_text()]
    assert all({*fonts} <= {*one.get_fontfamily()} for one in (axes.yaxis.label, text))


def test_a_plot_suits_a_light_and_a_dark_page():
    """The figure is transparent, and every text contrasts with white and with JupyterLab's dark background."""
    from matplotlib.colors import to_rgb, to_rgba
    from matplotlib.text import Text

    axes = plots.plot_losses({"as written": [1.0, 0.1]})
    assert 0 == to_rgba(axes.figure.get_facecolor())[3] == to_rgba(axes.get_facecolor())[3]
    for text in axes.findobj(Text):
        (grey,) = set(to_rgb(text.get_color()))
        light = ((grey + 0.055) / 1.055) ** 2.4
        assert min(1.05 / (light + 0.05), (light + 0.05) / 0.0556) > 4
