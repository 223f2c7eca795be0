"""Private parts carry their claims, and the check that says so can fail."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def load_check():
    spec = importlib.util.spec_from_file_location("check_claims", ROOT / "scripts" / "check_claims.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.check


def test_every_part_has_its_claim_and_every_key_its_entry():
    assert load_check()(ROOT / "src" / "dpforest", ROOT / "docs" / "references.bib") == []


def test_a_part_without_claim_is_found(tmp_path):
    (tmp_path / "parts" / "criteria").mkdir(parents=True)
    part = 'class Bare:\n    """Scores. [nobody1900]"""\n    def score(self):\n        pass\n'
    (tmp_path / "parts" / "criteria" / "bare.py").write_text(part)
    bibliography = tmp_path / "references.bib"
    bibliography.write_text("")
    found = load_check()(tmp_path, bibliography)
    assert any("Bare has no 'Because:'" in line for line in found)
    assert any("nobody1900" in line for line in found)


def test_the_public_names_are_those_of_the_contract():
    import dpforest

    assert sorted(dpforest.__all__) == [
        "Bounded", "Budget", "Categorical", "Classes", "DPForestClassifier", "DPForestRegressor", "DPSearchCV", "Date",
        "Numeric", "Schema", "get_recipe", "list_recipes", "load_model",
    ]  # fmt: skip
    assert all(hasattr(dpforest, name) for name in dpforest.__all__)
