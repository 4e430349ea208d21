from trackside.rules.custom.smdebug_rule import invoke_rule

__all__ = ["invoke_rule"]
