from trackside.capture.collection import Collection, CollectionKeys

__all__ = ["Collection", "CollectionKeys"]
