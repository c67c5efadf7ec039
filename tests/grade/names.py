"""Names of students and files that are allowed, and odd."""

ODD_NAMES = (
    "new\nline", "\x1b]0;title\x07\x1b[31mred", "right‮to left‏", "\x9b31m", "...", " ", " blanks ", "[bold][red]",
    "[*?]", "'\"`$(true)", "-rf", "--force", "äöß", "😀", "CASE", "case", "Doe, Jane", "=1+1", "{student_id}", "%s%n",
    "C:\\x", "~", "a" * 255, "tab\tbed",
)  # fmt: skip
