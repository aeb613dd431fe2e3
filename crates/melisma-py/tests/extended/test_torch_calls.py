"""The calls of `test_calls`, with tensors of torch among the arguments."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import test_calls


class Calls(test_calls.Calls):
    def environment(self):
        return {**super().environment(), "TEST_TORCH": "1"}


if __name__ == "__main__":
    unittest.main()
