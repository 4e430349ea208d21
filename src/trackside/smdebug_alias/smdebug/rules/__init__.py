from trackside.rules.required_tensors import RequiredTensors
from trackside.rules.smdebug_rule import Rule, invoke_rule

__all__ = ["RequiredTensors", "Rule", "invoke_rule"]
