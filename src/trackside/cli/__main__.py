"""`python -m trackside.cli`: the same as the `trackside` command."""

from trackside.cli.main import main

main(prog_name="trackside")
