"""The ECA paper's section 6: bytes, block reads and messages of Example 6."""
