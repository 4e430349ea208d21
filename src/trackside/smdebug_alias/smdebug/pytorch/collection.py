from trackside.capture.selection.collection import Collection, CollectionManager

__all__ = ["Collection", "CollectionManager"]
