"""opusdec of opus-tools on Ogg files: seconds of sound in a second.

Arguments: for each file the name of its row, its path, and its seconds.
The last line of output is one JSON object {row: {peer: figure}}.
"""

import json
import re
import shutil
import subprocess
import sys

program = shutil.which("opusdec")
if program is None:
    sys.exit("No program named 'opusdec'")
said = subprocess.run([program, "--version"], capture_output=True, text=True)
version = re.search(r"opus-tools (\S+)", said.stdout + said.stderr)
name = f"opusdec {version.group(1) if version else ''}".strip()


def decode(path):
    command = [program, "--quiet", "--rate", "48000", "--float", path, "/dev/null"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


rows = {}
for row, path, seconds in zip(*[iter(sys.argv[1:])] * 3):
    rows[row] = {name: float(seconds) / median_seconds(lambda: decode(path), least=5, seconds=0.0, warm_up=1)}
print(json.dumps(rows))
