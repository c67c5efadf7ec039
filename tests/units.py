"""The distribution of tests over workers: units, their order, and the report on skipped tests.

The tests of a file share a worker, because its class is graded, or its browser started, once. The corpus is distributed
by program instead: all tests of one program, in any file, share a worker and so its one recording
(`tests/corpus/once.py`).
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from functools import cache

CORPUS = (
    "corpus/test_tape.py",
    "corpus/test_scripts.py",
    "corpus/test_truth.py",
    "repair/test_corpus.py",
    "tape/observe/test_observer_effect.py",
    "watch/test_like_explain.py",
)
SHARES = 12
"""Into so many parts the corpus is dealt: small enough to even out the workers at the end."""

QUICK = ("corpus 0",)
"""The shares of the corpus that `test --quick` runs."""

SLOW: dict[str, tuple[str, ...]] = {
    "browser/test_attempt.py": (),
    "browser/test_hostile_pages.py": ("test_this_test_can_tell", "test_nothing_acts_in_feedback"),
    "browser/test_practice_lab.py": (),
    "browser/test_widget_lab.py": ("test_an_export_shows_the_static_picture_offline",),
    "grade/batch/test_csv_export.py": ("test_every_student_has_one_whole_row",),
    "grade/batch/test_dry_run.py": (),
    "grade/batch/test_odd_hand_ins.py": (),
    "grade/batch/test_policy.py": ("test_the_best_of_several_submissions_counts_after_its_penalty",),
    "grade/batch/test_what_decides.py": ("test_nothing_changed", "test_the_teachers_files[data.csv]"),
    "grade/classes/test_like_nbgrader.py": (),
    "grade/sandbox/test_resource_watch.py": (
        "test_memory_of_every_kind_is_counted[in several processes]",
        "test_honest_use_of_memory_is_within_the_limit",
        "test_a_cell_ends_at_its_limit[is busy-alone]",
        "test_processors_are_shared_out",
    ),
    "lessons/test_attempt_pictures.py": (),
    "tape/observe/test_compiled.py": (
        "test_a_compiler_that_gives_other_gradients_is_told",
        "test_rounding_of_a_zero_is_no_difference",
        "test_the_stance_is_put_back",
    ),
}
"""Files that only `test --slow` and `test --all` run, each with the tests that `test` runs all the same."""

SLOW_TESTS = (
    "browser/test_board.py::test_a_finger_drags_too",
    "browser/test_board.py::test_an_edited_line_is_sent",
    "browser/test_board.py::test_the_buttons_beside_a_line_are_seen_before_the_pointer_is_there",
    "book/test_without_threads.py::test_recording_starts_no_thread_and_no_process",
    "course/test_help.py::test_nearly_every_exercise_has_a_twin_whose_own_answer_passes",
    "desk/test_handout_package.py::test_each_student_gets_a_zip_with_the_own_variant",
    "grade/batch/test_feedback.py::test_a_cell_that_was_missing_is_said_to_be_where_it_stands",
    "grade/batch/test_regrade.py::test_a_source_that_gained_and_lost_cells_is_accepted_on_request",
    "grade/batch/test_regrade.py::test_a_submission_time_is_read_or_listed",
    "grade/classes/test_demo_class.py::test_its_readme_leads_from_the_zip_to_returned_grades",
    "grade/sandbox/test_walls.py::test_ordinary_programs_run_behind_the_filter",
    "grade/sandbox/test_walls.py::test_the_kernel_refuses_too_many_processes",
    "grade/sandbox/test_worker.py::test_servers_that_share_a_start_share_nothing_else",
    "grade/sandbox/test_worker.py::test_the_end_of_a_worker_has_a_reason_and_leaves_nothing",
    "grade/sandbox/test_worker.py::test_the_rehearsal_is_run_to_its_end",
    "grade/validation/test_validate.py::test_a_test_that_fails_as_planned_gives_points_to_nobody",
    "grade/validation/test_validate.py::test_a_test_that_the_release_passes_only_in_process_is_named",
    "grade/validation/test_validate.py::test_a_test_without_a_model_answer_shows_no_points_for_it",
    "grade/validation/test_validate.py::test_a_warning_moves_no_test_into_the_process",
    "grade/validation/test_validate.py::test_all_tests_in_process_need_no_reason",
    "grade/validation/test_validate.py::test_an_answer_that_a_person_grades_is_a_model_answer_too",
    "grade/validation/test_validate.py::test_made_up_submissions_are_graded_like_others",
    "grade/wire/test_plain_values.py::test_forged_parts_give_a_plain_value_or_a_value_error",
    "lessons/test_bad_input.py::test_a_check_that_runs_twice_says_the_same",
    "tape/internals/test_internals.py::test_explain_ends_in_one_sentence",
    "tape/run/test_cell_text.py::test_a_lecture_is_explained_as_it_is",
    "test_bootstrap.py::test_the_cpu_build_falls_back_to_the_usual_index",
    "watch/test_job_watch.py::test_a_log_forgets_its_older_half",
    "watch/test_job_watch.py::test_memory_does_not_grow_with_the_tensors",
)
"""Slow tests of other files."""

SAMPLED = (
    "corpus/test_scripts.py::test_marked_lines_are_those_that_wrote",
    "repair/test_corpus.py::test_repairs_hold_without_the_tape",
)
"""Tests of the corpus that are slow, except for the programs of QUICK."""

EXHAUSTIVE = ("corpus 9", "corpus 10", "corpus 11")
"""Shares whose slow tests are in no part of `.ci/run`: others contain programs of the same kinds. The weekly `test --all` runs them."""

PARTS = (
    ("test_package.py", "corpus 0"),
    ("book/test_every_case.py", "book/test_in_browser.py", "lessons/test_attempt_pictures.py", "corpus 1"),
    ("lessons/test_in_chinese.py", "grade/sandbox/test_hostile.py", "corpus 2"),
    ("lessons/test_notebooks.py", "repair/test_scripts.py", "corpus 3"),
    (
        "grade/classes/test_courses.py",
        "grade/sandbox/test_taken_over_judge.py",
        "tape/observe/test_compiled.py",
        "corpus 4",
    ),
    ("course/test_handouts.py", "grade/batch/test_what_decides.py", "grade/sandbox/test_resource_watch.py", "corpus 5"),
    (
        "lessons/test_mutations.py",
        "course/test_variants.py",
        "grade/batch/test_odd_hand_ins.py",
        "grade/batch/test_resume.py",
        "corpus 6",
    ),
    ("browser", "grade/classes/test_like_nbgrader.py", "grade/classes/test_walks.py", "corpus 7", "corpus 8"),
)
"""Parts of the slow tests with the units that take minutes; the hash of its name places any other unit.

`.ci/run` runs one part, in at most ten minutes.
"""

THOROUGH = {
    "check/test_check.py",
    "cluster/test_dask_cluster.py",
    "cluster/test_postgresql.py",
    "cluster/test_unusable_clusters.py",
    "course/test_attempt.py",
    "course/test_lab.py",
    "course/test_practice.py",
    "course/test_release.py",
    "course/test_variants.py",
    "desk/test_odd_input.py",
    "desk/test_similar.py",
    "desk/test_written_time.py",
    "grade/batch/test_csv_export.py",
    "grade/batch/test_fair_grades.py",
    "grade/batch/test_regrade.py",
    "grade/sandbox/test_isolation.py",
    "grade/submission/test_which_process.py",
    "grade/test_batches.py",
    "grade/test_nbgrader_adapter.py",
    "grade/validation/test_validate.py",
    "grade/wire/test_fuzz.py",
    "lessons/test_after_success.py",
    "lessons/test_attempt_pictures.py",
    "lessons/test_bad_input.py",
    "lessons/test_cases.py",
    "lessons/test_culprits.py",
    "lessons/test_decisive_inputs.py",
    "lessons/test_mutations.py",
    "repair/test_several_files.py",
    "tape/atlas/test_atlas_truth.py",
    "tape/internals/test_internals.py",
    "tape/run/test_budget.py",
    "tape/run/test_child_processes.py",
    "tape/run/test_explain.py",
    "tape/run/test_modules.py",
    "tape/run/test_one_meaning.py",
    "tape/run/test_scale.py",
    "test_bootstrap.py",
    "test_explain.py",
    "test_package.py",
    "view/test_fold.py",
    "view/test_static.py",
    "watch/test_compiled.py",
    "watch/test_pytest_plugin.py",
}
"""Files that `test --quick` leaves out."""

LONGEST = (
    "browser",
    "fixture_class/test_stock_nbgrader.py",
    "test_package.py",
    "grade/sandbox/test_hostile.py",
    "grade/batch/test_resume.py",
    "lessons/test_notebooks.py",
    "lessons/test_mutations.py",
    "grade/classes/test_like_nbgrader.py",
    "course/test_attempt.py",
    "test_house.py",
)
"""The slowest folders and files come first: starting one last would leave the other core idle."""


@cache
def unit_of(node: str) -> str:
    """Return the unit of a test, which shares a worker: a share of the corpus, the tests with a browser, or a file."""
    file, _, rest = node.removeprefix("tests/").partition("::")
    program = re.search(r"\[(.+)\]$", rest)
    if file in CORPUS and program:
        return f"corpus {zlib.crc32(program[1].encode()) % SHARES}"
    return "browser" if file.startswith("browser/") else file


def is_slow(node: str) -> bool:
    """Return whether only `test --slow` and `test --all` run a test."""
    file, _, name = node.removeprefix("tests/").partition("::")
    test = name.partition("[")[0]
    if f"{file}::{test}" in SAMPLED:
        return unit_of(node) not in QUICK
    return f"{file}::{test}" in SLOW_TESTS or (file in SLOW and not {name, test} & set(SLOW[file]))


def part_of(unit: str) -> int:
    """Return the part, counted from 1, that the slow tests of a unit belong to."""
    placed = (number for number, units in enumerate(PARTS, 1) if unit in units)
    return next(placed, zlib.crc32(unit.encode()) % len(PARTS) + 1)


def rank(unit: str) -> int:
    """Return the place of a unit in the order; what is not named as long comes last, in the order of the files."""
    return LONGEST.index(unit) if unit in LONGEST else len(LONGEST)


def skipped_lines(reasons: list[str]) -> list[str]:
    """Return a line for each reason why tests were skipped, with their number; the most frequent first."""
    counted = Counter(reason.removeprefix("Skipped: ") for reason in reasons).most_common()
    return [f"skipped: {count} {'test' if count == 1 else 'tests'} ({reason})" for reason, count in counted]
