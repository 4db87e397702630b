"""The algebra: signed bags, views as sums of project-select-join terms, substitution and questions to the sources."""
