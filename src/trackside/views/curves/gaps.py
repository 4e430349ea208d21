"""What a view of a job cannot show, and how to get it next time: the texts that views share."""

NO_CURVES = (
    "No curves. Write them with a SummaryWriter, such as one for 'runs', or print them and name a "
    "pattern: trackside run --metric 'loss=loss: ([0-9.]+)'"
)
NO_TENSORS = (
    "No tensors, so no layers. Start the job with --capture gradients,weights,losses, or give "
    "debugger_hook_config in the SDK; the script stays as it is."
)


def no_rules(shown: str) -> str:
    """`shown` is the job's name for users."""
    return (
        "No rules watched the job. Start it with --rule all, or judge what it saved: "
        f"trackside rules check {shown} --rule all"
    )
