"""The Partition paper's refresh times, and the space they cost."""
