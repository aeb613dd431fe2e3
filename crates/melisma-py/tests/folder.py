"""Tests that write files."""

import os
import tempfile
import unittest


class FolderCase(unittest.TestCase):
    """A test case with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)
