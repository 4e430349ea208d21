from trackside.capture.selection.collection import Collection, CollectionKeys, CollectionManager

__all__ = ["Collection", "CollectionKeys", "CollectionManager"]
