"""Answers for people: the report, small files for a live page, one view's timeline, and a query prompt."""
