from trackside.capture.selection.collection import Collection, CollectionKeys

__all__ = ["Collection", "CollectionKeys"]
