from trackside.capture.current_hook import del_hook, set_hook
from trackside.capture.hook import get_hook

__all__ = ["del_hook", "get_hook", "set_hook"]
