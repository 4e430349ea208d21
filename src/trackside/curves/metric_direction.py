"""Whether a metric is better when higher, by its name."""

import re

_MORE_IS_BETTER = re.compile(
    r"acc|auc|f1|score|precision|recall|bleu|rouge|reward|map\b|iou|dice|r2"
)


def is_more_better(name: str) -> bool:
    return _MORE_IS_BETTER.search(name.lower()) is not None
