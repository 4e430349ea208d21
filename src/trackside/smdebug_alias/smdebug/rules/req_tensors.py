from trackside.rules.custom.smdebug_rule import RequiredTensors

__all__ = ["RequiredTensors"]
