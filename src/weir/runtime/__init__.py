"""What joins all of it: a project's sources and views, the rounds that keep the views, recovery, and what is told."""
