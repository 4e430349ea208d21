from trackside.rules.custom.smdebug_rule import RequiredTensors, Rule, invoke_rule

__all__ = ["RequiredTensors", "Rule", "invoke_rule"]
