"""Exercises about a program that a check cell holds: what it will do, what it returns, which of its lines did harm."""
