"""The record of one step: calls as values and links, in two libraries."""
