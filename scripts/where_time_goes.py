"""Where the tests' time goes, and what it buys: a table by file of seconds, cases and known mistakes that the file notices.

Its arguments are reports that ``pytest --junit-xml FILE`` wrote. Known mistakes are those of ``tests.mutants``.
"""

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

from tests.mutants.mutants import MUTANTS

SHOWN = 40  # files, those that take the longest; the others are one line for each folder


def file_of(case: ElementTree.Element) -> str:
    """The file of a test, below ``tests``: a class name is that file, with points, and perhaps a class."""
    parts = case.get("classname", "").split(".")
    place = next((place for place, part in enumerate(parts) if part.startswith("test_")), len(parts) - 1)
    return "/".join(parts[1 : place + 1]) + ".py"


def main(paths: list[str]) -> None:
    """Print the table as Markdown, the files that take the longest first."""
    times: dict[str, list[float]] = defaultdict(list)
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):
            times[file_of(case)].append(float(case.get("time", 0)))
    noticed: dict[str, int] = defaultdict(int)
    for mutant in MUTANTS:
        for file in {test.partition("::")[0] for test in mutant.tests.split()}:
            noticed[file] += 1
    order = sorted(times, key=lambda file: -sum(times[file]))
    rest: dict[str, list[str]] = defaultdict(list)
    for file in order[SHOWN:]:
        rest[f"others of {Path(file).parent}"].append(file)
    print("| tests | cases | seconds | mistakes noticed |\n|---|---:|---:|---:|")
    for name, files in [*((file, [file]) for file in order[:SHOWN]), *sorted(rest.items())]:
        own = [time for file in files for time in times[file]]
        print(f"| {name} | {len(own):,} | {sum(own):.1f} | {sum(noticed[file] for file in files) or ''} |")
    whole = [time for own in times.values() for time in own]
    print(f"| all | {len(whole):,} | {sum(whole):.0f} | {len(MUTANTS)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
