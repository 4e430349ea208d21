"""What is known about jobs, gathered for whoever shows it: command line, report, page and API."""
