"""Findings to Markdown, tables and charts."""
