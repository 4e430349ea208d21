from trackside.capture.save_config import SaveConfig, SaveConfigMode

__all__ = ["SaveConfig", "SaveConfigMode"]
