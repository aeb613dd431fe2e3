"""Measures one candidate for the search that started this process: `python _worker.py SPEC`."""

import os
import sys

if __name__ == "__main__":
    # The package that this file belongs to, however it was found.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    from melisma._melisma import _work

    sys.exit(_work(sys.argv[1]))
