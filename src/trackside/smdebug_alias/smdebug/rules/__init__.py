from trackside.rules.custom.required_tensors import RequiredTensors
from trackside.rules.custom.smdebug_rule import Rule, invoke_rule

__all__ = ["RequiredTensors", "Rule", "invoke_rule"]
