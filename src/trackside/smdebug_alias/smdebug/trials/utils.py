from trackside.smdebug_alias.opening import create_trial

__all__ = ["create_trial"]
