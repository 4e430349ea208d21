from trackside.capture.refreshing import no_refresh, refresh
from trackside.rules.parameters import parse_bool, parse_list_from_str

__all__ = ["no_refresh", "parse_bool", "parse_list_from_str", "refresh"]
