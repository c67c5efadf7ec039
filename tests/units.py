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
    "corpus/test_tape.py", "corpus/test_scripts.py", "corpus/test_truth.py", "repair/test_corpus.py",
    "tape/observe/test_observer_effect.py", "watch/test_like_explain.py",
)  # fmt: skip
SHARES = 9
"""Into so many parts the corpus is dealt: small enough to even out the workers at the end."""

SLOW: dict[str, tuple[str, ...]] = {
    "course/book/test_in_browser.py": (), "browser/test_lesson.py": (), "browser/test_board.py": (),
    "browser/test_hostile_pages.py": (), "lessons/test_culprits.py": (),
    "browser/test_widget_module.py": (), "browser/test_widget_page.py": (),
    "cluster/test_dask_cluster.py": (), "cluster/test_postgresql.py": (), "cluster/test_unusable_clusters.py": (),
    "corpus/test_scripts.py": (), "corpus/test_truth.py": (), "grade/batch/test_odd_hand_ins.py": (),
    "grade/classes/test_like_nbgrader.py": (), "grade/sandbox/test_resource_watch.py": (), "lessons/test_mutations.py": (),
    "lessons/test_tutor_lines.py": (), "repair/test_corpus.py": (), "repair/test_scripts.py": (), "tape/atlas/test_atlas_truth.py": (),
    "tape/run/test_child_processes.py": (), "test_package.py": (), "grade/batch/test_dry_run.py": (),
    "browser/test_widget_lab.py": ("test_an_export_shows_the_static_picture_offline",),
    "course/test_attempt.py": ("test_the_command_succeeds_only_if_each_exercise_is_correct",),
    "grade/classes/test_own_notebooks.py": ("test_more_students_change_nobody", "test_nothing_is_handed_out_that_was_not_proven"),
    "grade/test_nbgrader_adapter.py": ("test_no_other_module_uses_a_private_name",),
    "tape/observe/test_compiled.py": (
        "test_a_compiler_that_gives_other_gradients_is_told", "test_rounding_of_a_zero_is_no_difference", "test_the_stance_is_put_back",
        "test_a_lost_check_is_named", "test_a_right_program_keeps_its_outcome_where_eager_would_raise",
    ),
    "test_explain.py": (
        "test_the_readme_shows_what_the_command_prints",
        "test_a_right_program_ends_with_0", "test_a_text_is_explained_from_the_command_line_and_from_standard_input",
    ),
}  # fmt: skip
"""Files that only `test --slow` and `test --all` run, each with the tests that `test` runs all the same."""

SLOW_TESTS: dict[str, tuple[str, ...]] = {
    "check/test_check.py": ("test_a_name_loads_what_it_needs", "test_the_first_check_of_a_kernel_waits_for_nothing"),
    "classroom/test_gradescope.py": ("test_right_and_wrong_work_get_what_grade_gives",),
    "classroom/test_reading.py": ("test_an_answer_in_a_cell_without_metadata_is_listed",),
    "classroom/test_report.py": ("test_on_paper_every_example_is_seen", "test_the_page_fits_a_screen"),
    "classroom/test_similar.py": ("test_planted_copies_are_found_and_independent_answers_are_not",),
    "course/book/test_own_programs.py": ("test_a_program_that_does_not_end",),
    "course/book/test_pages.py": ("test_the_book_in_chinese_is_the_same_book",),
    "course/book/test_recording.py": ("test_recording_starts_no_thread_and_no_process", "test_recordings_are_kept_by_content"),
    "course/book/test_search.py": ("test_each_searched_word_leads_to_the_lesson_that_treats_it",),
    "course/test_error_index.py": ("test_the_command_says_the_same",),
    "course/test_help.py": (
        "test_a_lesson_that_imports_a_name_keeps_progress", "test_nearly_every_exercise_has_a_twin_whose_own_answer_passes",
        "test_what_failed_is_told_by_its_name",
    ),
    "course/test_lab.py": ("test_a_copy_is_what_jupyterlab_would_save_of_it", "test_the_server_starts_serves_and_stops"),
    "course/test_practice.py": ("test_both_forms_have_the_outcome_of_plain_pytorch",),
    "course/test_release.py": ("test_a_variant_has_the_exercises_of_the_release_in_other_numbers",),
    "course/test_summary.py": ("test_the_page_is_in_the_reader_s_language",),
    "course/test_variants.py": ("test_all_seeds_keep_the_outcomes",),
    "grade/batch/test_course_config.py": ("test_a_course_may_keep_its_files_elsewhere",),
    "grade/batch/test_feedback.py": (
        "test_a_cell_that_was_missing_is_said_to_be_where_it_stands",
        "test_the_report_shows_the_answer_of_each_test_and_counts_no_unchanged_one",
        "test_what_takes_too_long_to_typeset_is_plain",
    ),
    "grade/batch/test_policy.py": ("test_the_best_of_several_submissions_counts_after_its_penalty",),
    "grade/batch/test_received_grade.py": (
        "test_a_source_that_gained_and_lost_cells_is_accepted_on_request", "test_a_submission_time_is_read_or_listed",
        "test_earlier_records_are_read", "test_grading_again_changes_no_points",
    ),
    "grade/classes/test_demo_class.py": ("test_its_readme_leads_from_the_zip_to_returned_grades",),
    "grade/classes/test_languages.py": ("test_the_points_are_the_same_and_the_words_are_the_learners",),
    "grade/clean/test_clean.py": ("test_markdown_that_takes_the_square_of_its_length_becomes_code",),
    "grade/sandbox/test_taken_over_judge.py": ("test_a_judge_changes_its_own_cells_only",),
    "grade/sandbox/test_walls.py": (
        "test_a_submission_that_shares_the_network_makes_no_internet_sockets", "test_one_server_serves_all_submissions",
        "test_ordinary_programs_run_behind_the_filter", "test_the_kernel_refuses_too_many_processes",
    ),
    "grade/sandbox/test_worker.py": (
        "test_a_cell_does_what_it_does_in_a_kernel", "test_an_error_without_end_ends_its_own_call",
        "test_servers_that_share_a_start_share_nothing_else", "test_the_end_of_a_worker_has_a_reason_and_leaves_nothing",
        "test_the_rehearsal_is_run_to_its_end",
    ),
    "grade/submission/test_any_prediction.py": ("test_any_outcome_or_value_earns_the_points",),
    "grade/submission/test_autotests.py": (
        "test_a_class_is_graded_by_them", "test_a_right_answer_of_another_form_passes",
        "test_what_cannot_be_made_into_tests_is_one_sentence",
    ),
    "grade/submission/test_lesson_cells.py": (
        "test_a_test_finds_what_it_finds_in_one_kernel", "test_a_test_of_this_form_ends_as_in_one_kernel",
        "test_no_cell_of_a_right_hand_in_ends_in_an_error", "test_no_demonstration_is_recorded_again",
    ),
    "grade/submission/test_source.py": (
        "test_reading_a_source_imports_no_torch", "test_a_source_is_read_without_torch",
        "test_what_is_released_and_graded_is_what_nbgrader_releases_and_grades",
    ),
    "grade/submission/test_source_recordings.py": ("test_recordings_of_the_source_show_the_same",),
    "grade/submission/test_submitted_files.py": ("test_no_text_takes_long",),
    "grade/submission/test_which_process.py": (
        "test_a_cell_may_say_that_it_is_judged_in_one_process", "test_a_module_beside_the_notebook_is_found_as_by_a_kernel",
        "test_all_runs_of_a_submission_share_its_time",
    ),
    "grade/test_batches.py": (
        "test_a_cell_that_a_person_graded_does_not_wait", "test_points_that_another_program_wrote_are_restored_and_named",
        "test_together_or_one_by_one_is_the_same_gradebook",
    ),
    "grade/validation/test_validate.py": (
        "test_grade_prints_the_findings_and_grades_by_the_plan", "test_the_command_prints_a_table_and_the_findings",
    ),
    "grade/wire/test_forged_values.py": ("test_such_an_answer_has_an_end",),
    "grade/wire/test_fuzz.py": ("test_any_json_becomes_cells_or_a_reason", "test_no_json_gives_points_to_wrong_work"),
    "grade/wire/test_plain_values.py": ("test_forged_parts_give_a_plain_value_or_a_value_error",),
    "lessons/test_after_success.py": (
        "test_a_pass_shows_the_answers_own_run", "test_a_reason_loads_neither_nbformat_nor_nbgrader",
        "test_the_second_way_is_right_and_another_program",
    ),
    "lessons/test_attempt_pictures.py": ("test_each_wrong_answer_has_its_picture",),
    "lessons/test_bad_input.py": ("test_a_check_that_runs_twice_says_the_same",),
    "lessons/test_beyond_in_place.py": ("test_a_recorded_result_is_what_the_program_prints",),
    "lessons/test_decisive_inputs.py": (
        "test_a_near_miss_is_refused_whatever_is_drawn", "test_a_right_answer_passes_whatever_is_drawn",
    ),
    "lessons/test_lessons.py": ("test_each_case_is_run_in_a_lesson",),
    "locale/test_spoken_chinese.py": ("test_notes_on_graph_faults_are_chinese",),
    "repair/test_effects.py": (
        "test_a_change_of_the_computation_is_printed_only_if_asked_for", "test_a_notebook_is_repaired_in_its_own_cell",
        "test_a_proof_asks_for_the_outcome_alone", "test_a_write_that_the_loss_contains_unseen_is_repaired_in_a_loop_too",
        "test_apply_keeps_the_file_as_it_was", "test_apply_writes_nothing_that_changes_what_is_computed",
        "test_gradients_that_many_calls_add_to_are_compared", "test_the_diff_is_one_that_patch_applies",
        "test_what_would_train_for_hours_is_repaired_as_what_trains_three_steps",
    ),
    "repair/test_search.py": ("test_no_fix_is_denied_if_a_change_was_run_with_success",),
    "repair/test_syntax.py": (
        "test_a_forward_that_stops_in_another_file_is_named_and_repaired_there",
        "test_odd_syntax_is_rewritten_without_damage", "test_one_fault_here_and_one_in_an_import",
        "test_repair_lies_in_the_files_that_do_harm",
    ),
    "tape/diagnose/test_foreign_errors.py": (
        "test_a_class_is_refused_with_one_sentence", "test_leaving_after_an_error_does_not_hide_the_harm",
    ),
    "tape/internals/test_internals.py": ("test_explain_ends_in_one_sentence",),
    "tape/observe/test_engine_neighbours.py": ("test_no_run_holds_the_tensors_of_an_earlier_one",),
    "tape/observe/test_observe.py": (
        "test_a_line_apart_from_every_graph_is_counted", "test_a_scripted_function_is_looked_at",
        "test_statements_without_pytorch_are_not_looked_at",
    ),
    "tape/run/test_budget.py": (
        "test_a_program_of_which_nothing_is_known_in_time_is_one_sentence",
        "test_a_run_that_nothing_interrupts_is_ended_with_what_is_known",
        "test_an_error_that_only_a_later_run_reaches_is_not_one_of_the_comparison", "test_one_step_can_be_asked_for",
        "test_the_budget_holds_for_proofs_too",
    ),
    "tape/run/test_entropy.py": ("test_pandas_is_imported", "test_where_runs_differ_no_outcome_is_named"),
    "tape/run/test_explain.py": (
        "test_a_folder_without_an_init_file_can_be_imported_in_each_run",
        "test_an_end_that_python_drops_is_called_for_again",
    ),
    "tape/run/test_one_meaning.py": ("test_every_way_gives_the_same",),
    "tape/run/test_run.py": ("test_a_graph_fault_is_named_with_its_cell", "test_a_lecture_is_explained_as_it_is"),
    "tape/run/test_scratch_folder.py": (
        "test_a_folder_of_6000_files_is_copied", "test_a_program_that_ends_the_process_does_not_end_the_notebook",
        "test_a_program_that_removes_its_own_folder_removes_the_copy", "test_a_removal_outside_of_the_project_is_refused",
        "test_the_folder_stays_as_it_was",
    ),
    "test_bootstrap.py": (
        "test_a_file_that_is_not_the_locked_one_is_refused", "test_the_cpu_build_falls_back_to_the_usual_index",
    ),
    "view/test_static.py": ("test_each_frame_is_well_formed",),
    "watch/test_compiled.py": ("test_the_compiler_may_be_loaded_under_the_watch",),
    "watch/test_job_watch.py": ("test_memory_does_not_grow_with_the_tensors",),
}  # fmt: skip
"""Slow tests of other files."""

PARTS = (
    ("test_package.py", "grade/batch/test_feedback.py", "corpus 0"),
    ("course/book/test_every_case.py", "course/book/test_in_browser.py", "corpus 1"),
    ("lessons/test_in_chinese.py", "grade/sandbox/test_hostile.py", "corpus 2"),
    ("lessons/test_notebooks.py", "repair/test_scripts.py", "corpus 3"),
    ("grade/classes/test_courses.py", "grade/sandbox/test_taken_over_judge.py", "tape/observe/test_compiled.py", "corpus 4"),
    ("course/test_handouts.py", "grade/batch/test_dry_run.py", "grade/sandbox/test_resource_watch.py", "corpus 5"),
    (
        "lessons/test_mutations.py",
        "course/test_variants.py",
        "grade/batch/test_odd_hand_ins.py",
        "grade/batch/test_resume.py",
        "corpus 6",
    ),
    ("grade/classes/test_like_nbgrader.py", "corpus 7", "corpus 8"),
    ("browser", "lessons/test_after_success.py"),
    ("lessons/test_attempt_pictures.py", "grade/classes/test_walks.py"),
)  # fmt: skip
"""Parts of the slow tests with the units that take minutes; the hash of its name places any other unit.

`.ci/run` runs one part, in at most ten minutes.
"""

THOROUGH = {
    "classroom/test_odd_input.py", "classroom/test_policy_names.py", "classroom/test_report.py", "corpus/test_generated.py",
    "course/book/test_own_programs.py", "course/test_handouts.py", "course/test_release.py", "course/test_summary.py",
    "grade/batch/test_fair_grades.py", "grade/classes/test_demo_class.py", "grade/classes/test_own_notebooks.py",
    "grade/clean/test_clean.py", "grade/sandbox/test_hostile.py", "grade/sandbox/test_taken_over_judge.py",
    "grade/sandbox/test_walls.py", "grade/sandbox/test_worker.py", "grade/submission/test_attempt_pictures.py",
    "grade/submission/test_autotests.py", "grade/submission/test_lesson_cells.py", "grade/submission/test_source_recordings.py",
    "grade/submission/test_which_process.py", "grade/validation/test_validate.py", "grade/wire/test_plain_values.py",
    "grade/wire/test_wire.py", "lessons/test_lessons.py", "lessons/test_notebooks.py", "locale/test_translations.py",
    "repair/test_kinds.py", "repair/test_search.py", "tape/atlas/test_atlas.py", "tape/diagnose/test_checked_gradients.py",
    "tape/diagnose/test_graph_faults.py", "tape/observe/test_observer_effect.py", "tape/observe/test_threads.py",
    "tape/run/test_entropy.py", "tape/run/test_explain.py", "tape/run/test_one_meaning.py", "tape/run/test_scratch_folder.py",
    "test_explain.py", "test_house.py", "test_prose.py", "watch/test_around_the_engine.py", "watch/test_like_explain.py",
    "watch/test_pytest_plugin.py",
}  # fmt: skip
"""Files that `test --quick` leaves out."""

LONGEST = (
    "browser", "test_explain.py", "fixture_class/test_stock_nbgrader.py", "test_package.py", "grade/sandbox/test_hostile.py",
    "grade/batch/test_resume.py", "lessons/test_notebooks.py", "lessons/test_mutations.py",
    "grade/classes/test_like_nbgrader.py", "course/test_attempt.py", "test_house.py",
)  # fmt: skip
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
    return test in SLOW_TESTS.get(file, ()) or (file in SLOW and test not in SLOW[file])


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
