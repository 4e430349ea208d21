"""What a script logs without TensorBoard: files of other loggers and lines that it prints.

`logger_files` finds the files and writes what their readers (`wandb_run`, `metrics_csv`,
`metrics_database`, `mlruns`) return as curves; `printed_metrics` does so with lines of the log.
"""
