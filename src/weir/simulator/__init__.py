"""The simulator: sources, channels and the warehouse in one deterministic world, under any schedule or under all of
them.
"""
