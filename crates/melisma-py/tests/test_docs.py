"""The examples in the docstrings."""

import doctest
import importlib
import pkgutil
import unittest

import melisma


def load_tests(loader, tests, pattern):
    for module in pkgutil.iter_modules(melisma.__path__):
        if module.name not in ("_melisma", "_worker", "ray"):
            tests.addTests(doctest.DocTestSuite(importlib.import_module(f"melisma.{module.name}")))
    return tests


if __name__ == "__main__":
    unittest.main()
