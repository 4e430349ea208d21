from trackside.smdebug_alias.training_job import TrainingJob

__all__ = ["TrainingJob"]
