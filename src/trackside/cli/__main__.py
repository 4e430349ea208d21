"""The `trackside` program, also `python -m trackside.cli`: a process that is ours alone."""

from trackside.cli.main import OWN_PROCESS, main


def command() -> None:
    main(prog_name="trackside", obj=OWN_PROCESS)


if __name__ == "__main__":
    command()
