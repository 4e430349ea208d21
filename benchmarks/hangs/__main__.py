"""`python -m benchmarks.hangs [CASE ...]`: the rows of these cases, or of all."""

import sys

from benchmarks.hangs.examine import examined, names

if __name__ == "__main__":
    examined(sys.argv[1:] or names())
