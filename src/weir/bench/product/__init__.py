"""The product's benchmarks: real databases, Spark and Delta, against a baseline in the same run."""
