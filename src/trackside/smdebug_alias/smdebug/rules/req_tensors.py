from trackside.rules.required_tensors import RequiredTensors

__all__ = ["RequiredTensors"]
