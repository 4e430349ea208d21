"""The first sentence of each command's help, so that `trackside --help` loads none of them.

`tests/cli/test_main.py` compares them with the commands' own."""

SUMMARIES = {
    "run": "Run a script, a module or a command as a training job.",
    "jobs": "List jobs, newest first.",
    "show": "Show one job: how far it is, why it failed, where all is.",
    "logs": "Print a job's log, byte for byte.",
    "stop": "Stop a job, and keep what it has made.",
    "artifacts": "List or download what a job has stored: model, output, …",
    "delete": "Forget jobs that have ended; with --data, remove what they made.",
    "findings": "Show what rules have found, and what to try.",
    "report": "Write one HTML page with all that is known about a job.",
    "metrics": "Show the curves of a job in the terminal.",
    "compare": "Show jobs side by side: settings, machine use, metrics.",
    "tensorboard": "Show jobs side by side in TensorBoard, as they grow.",
    "tensors": "List the tensors that a job has saved, with figures.",
    "rules": "List the built-in rules, or try some on a job.",
    "upload": "Send what a job could not store at its end.",
    "reindex": "Make the list of jobs anew from all that is stored.",
    "gc": "Free disk of what ended jobs left in TRACKSIDE_HOME.",
    "server": "Run and show jobs for a team, over AWS's own API.",
    "queue": "Show who waits for the machine, and why.",
    "keys": "Access keys of this machine's server.",
    "env": "Print what sets up AWS's own clients in a shell.",
    "login": "Work with the jobs of a server from now on.",
    "logout": "Work with the jobs of this machine again.",
}
