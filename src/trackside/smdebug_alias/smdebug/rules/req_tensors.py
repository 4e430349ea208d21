from trackside.rules.custom.required_tensors import RequiredTensors

__all__ = ["RequiredTensors"]
