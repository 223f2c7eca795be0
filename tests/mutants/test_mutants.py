"""Every mutant can still be made, and the tests that must notice it are there; ``python -m tests.mutants`` makes them."""

import re

from tests.mutants.mutants import MUTANTS, ROOT


def test_every_mutant_has_a_name_of_its_own_a_place_that_is_there_once_and_tests_that_exist():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        text = (ROOT / "src" / "dpforest" / mutant.file).read_text("utf-8")
        assert text.count(mutant.old) == 1, mutant.name
        for test in mutant.tests.split():
            file, _, function = test.partition("::")
            path = ROOT / "tests" / file
            assert path.exists(), test
            assert not function or re.search(rf"^def {function}\(", path.read_text("utf-8"), re.MULTILINE), test
