// The words of book.js in one language; templates have all others.
var book = {
  words: {
    right: {{ _("right")|tojson }},
    predicted: {{ _("{} of {} predicted, {} right at the first try")|tojson }},
    returns: {{ _("You predicted {}. It returns {}.")|tojson }},
    copied: {{ _("Copied")|tojson }},
    failed: {{ _("The recording could not be loaded. Load the page again.")|tojson }},
    found: {{ _("{} places found")|tojson }},
    none: {{ _("Nothing found")|tojson }},
    badFile: {{ _("This file does not contain answers from this book. Choose a file that this book saved.")|tojson }},
    forget: {{ _("Forget all your answers?")|tojson }},
    sentence: {{ _("{sentence}.")|tojson }},
    up: {{ _("move up: {}")|tojson }},
    down: {{ _("move down: {}")|tojson }},
    drag: {{ _("drag to another line")|tojson }},
    form: {{ _("how this line is written: {}")|tojson }},
    program: {{ _("program, line by line")|tojson }},
    reset: {{ _("As it was")|tojson }},
    notTried: {{ _("This order cannot run: a name would be read before it exists.")|tojson }},
    oneAtATime: {{ _("The other lines are as they were again: one line is changed at a time.")|tojson }},
    take: {{ _("take this line: {}")|tojson }},
    putBack: {{ _("put back: {}")|tojson }},
    spare: {{ _("lines to choose from")|tojson }},
    start: {{ _("Take the lines that you need, in the order in which they run. The last one returns.")|tojson }},
    passes: {{ _("The check passes.")|tojson }},
    unbound: {{ _("This order cannot run because a name would be read before it exists, or it was not run with PyTorch. Try fewer lines.")|tojson }},
    picture: {{ _("picture of the run")|tojson }}
  }
};
