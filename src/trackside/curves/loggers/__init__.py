"""What a script logs without TensorBoard: other loggers' files and printed lines.

`logger_files` finds the files and stores what their readers (`wandb_run`, `metrics_csv`,
`metrics_database`, `mlruns`) return as curves; `printed_metrics` does the same with lines of the
log.
"""
