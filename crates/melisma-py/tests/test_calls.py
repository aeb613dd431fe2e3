"""Everything public is called: with success once, then with wrong arguments, which nothing but a documented exception
answers. No call panics, ends the interpreter, hangs, or takes memory without a limit.

TEST_CALLS sets the number of calls; the extended check draws 100,000.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import public
import recipes

N_CALLS = int(os.environ.get("TEST_CALLS", 3_000))
TESTS = os.path.dirname(os.path.abspath(__file__))
DEADLINE_S = 600 + N_CALLS
"""Ten times what it takes on a slow machine; the caller itself ends where one call hangs."""


class Recipes(unittest.TestCase):
    def test_everything_public_has_a_recipe_for_every_argument(self):
        with tempfile.TemporaryDirectory() as folder:
            known_recipes = recipes.World(folder).recipes()
            missing = []
            for name, function in public.names().items():
                own = [make() for known, make in known_recipes.items() if known.partition(" ")[0] == name and name not in recipes.NEEDS]
                if not own and name not in recipes.NEEDS:
                    missing.append(name)
                # Protocols are called with a list of arguments.
                if name.rpartition(".")[2] in public.PROTOCOLS or not callable(function):
                    continue
                given = {key for recipe in own for key in recipe.kwargs}
                if own and not any(recipe.args for recipe in own):
                    missing += [f"{name}: {key}" for key in public.parameters(function) or [] if key not in given]
        self.assertEqual(missing, [])


class Calls(unittest.TestCase):
    def environment(self):
        return {name: value for name, value in os.environ.items() if not name.startswith("MELISMA_")}

    def test_calls_return_or_raise_what_is_documented(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, os.path.join(TESTS, "caller.py"), str(N_CALLS), "1", folder]
            ran = subprocess.run(
                command, env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=DEADLINE_S,
            )
            self.assertEqual(ran.returncode, 0, self.told(folder, ran))
            with open(os.path.join(folder, "report.json")) as file:
                report = json.load(file)
            self.assertEqual((report["unexpected"], report["forked"]), ([], 0), self.told(folder, ran))
        self.assertGreaterEqual(report["calls"], N_CALLS)
        absent = {name for name, need in recipes.NEEDS.items() if not recipes.has(need)}
        failed = {name: why for name, why in report["failed"].items() if name not in absent}
        self.assertEqual(failed, {})
        self.assertEqual(set(public.names()) - set(report["successes"]) - absent, set())
        if absent:
            print(f"\nSKIPPED: {len(absent)} calls need more than is here: {', '.join(sorted(absent))}", file=sys.stderr)

    def told(self, folder, ran):
        """The last call of each thread, and what was printed."""
        last = []
        for name in sorted(os.listdir(folder)):
            if name.startswith("call."):
                with open(os.path.join(folder, name), errors="replace") as file:
                    last.append(f"{name}: {file.read()[:2_000]}")
        return "\n".join([*last, ran.stdout[-2_000:], ran.stderr[-8_000:]])


if __name__ == "__main__":
    unittest.main()
