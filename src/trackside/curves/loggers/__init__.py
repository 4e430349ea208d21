"""What a script logs without TensorBoard: files of other loggers and lines that it prints.

`logger_files` finds the files and keeps what their readers (`wandb_run`, `metrics_csv`,
`metrics_database`, `mlruns`) give as curves; `printed_metrics` does it with lines of the log.
"""
