"""Inside a job that runs: what is kept while it runs, and what is said of it when backward fails."""
