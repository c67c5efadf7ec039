"""The return of grades and feedback to a platform, in the file that a teacher downloaded from it."""
