from trackside.capture.collection import Collection, CollectionManager

__all__ = ["Collection", "CollectionManager"]
