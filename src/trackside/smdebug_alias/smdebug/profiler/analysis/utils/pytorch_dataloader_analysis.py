from trackside.smdebug_alias.not_offered import not_offered

__all__ = ["PT_dataloader_analysis"]

PT_dataloader_analysis = not_offered(
    "PT_dataloader_analysis",
    "The rule `dataloader` and `trackside report JOB` say how long steps wait for data.",
)
