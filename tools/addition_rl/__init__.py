"""The quickstart's task: a byte-level model learns to add, first by examples, then by reward."""
