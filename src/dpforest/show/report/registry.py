"""A draft of the entry that a public registry of differentially private deployments asks for. Public values only.

Its levels follow the description of deployments proposed in arXiv 2509.13509: what was released and for whom, the promise,
how it was made, and how it was checked. What only a person can know is null unless it was said (see ``about``).
"""

from typing import Any

from dpforest.common.text import counted

FROM_A_PERSON = (
    "name", "description", "dataset", "dataset_version", "data_curator", "data_subjects", "intended_use", "release_date",
    "access", "contact",
)  # fmt: skip


def deployment(content: dict[str, Any]) -> dict[str, Any]:
    """The draft of a registry entry, from what ``report_content`` gives."""
    said = _said(content["about"])
    return {
        "to_be_filled_in": [f"deployment.{name}" for name, value in said.items() if value is None],
        "deployment": said | {"data_product": _product(content)},
        "differential_privacy": _promise(content),
        "implementation": _implementation(content),
        "limits": _limits(content),
        "evaluation": _evaluation(content),
    }


def _said(about: dict[str, str | None]) -> dict[str, str | None]:
    """What people have said, and None where they have not; a model is for its purpose if no other use is named."""
    return {name: about[name] for name in FROM_A_PERSON} | {"intended_use": about["intended_use"] or about["purpose"]}


def _product(content: dict[str, Any]) -> dict[str, Any]:
    forest, target = content["forest"], content["inputs"]["target"]
    released = "labels" if forest["release"] == "labels" else "counts"
    return {
        "type": "machine learning model",
        "form": f"forest of {counted(forest['n_trees'], 'decision tree')} with released {released}",
        "task": "classification" if target["kind"] == "classes" else "regression",
        "target": target["name"],
        "released": ["structure of the trees", f"{released} of nodes", "this report", "ledger of all charges"],
    }


def _promise(content: dict[str, Any]) -> dict[str, Any]:
    promise, ledger = content["guarantee"], content["ledger"]
    accounting = "zero-concentrated DP, converted once to (epsilon, delta)" if ledger["in_rho"] else "pure epsilon"
    accounting += "; sequential, parallel and bootstrap composition in an exact ledger"
    is_broken = content["audit"]["broken"]
    return {
        "holds": promise["holds"] and not is_broken,
        "why_not": [*promise["reasons"], *(["an audit broke the claim"] if is_broken else [])],
        "proof": promise["proof"],
        "not_proved": promise["outside"],
        "definition": "approximate differential privacy" if promise["delta"] else "pure differential privacy",
        "epsilon": promise["epsilon"],
        "delta": promise["delta"],
        "unit_of_privacy": promise["unit"],
        "most_rows_of_a_unit": promise["rows_of_unit"],
        "neighbours": promise["adjacency"],
        "if_one_is_replaced": promise["replace_one"],
        "if_one_row_is_added_or_removed": promise["one_row"],
        "proofs_for_all_neighbours": promise["neighbours"],
        "model": "central",
        "trust": "whoever trains the model sees the table and is trusted; whoever sees the model is not",
        "release": "one model, released once; losses of further releases from the same records add up",
        "mechanisms": [mechanism["name"] for mechanism in content["making"]["mechanisms"]],
        "accounting": accounting + ("; parts from outside charge what they declare" if promise["outside"] else ""),
        "budget": ledger["budget"],
        "budget_of_the_data_set": content["budget"],
        "charges": ledger["groups"],
        "assumed_public": content["inputs"],
    }


def _implementation(content: dict[str, Any]) -> dict[str, Any]:
    making = content["making"]
    randomness = "seeded, predictable" if making["seeded"] else "operating system's cryptographic generator"
    of_parts = "; not known of the parts from outside" if content["guarantee"]["outside"] else ""
    return {
        "library": "dpforest",
        "version": making["versions"].get("dpforest"),
        "made_with": making["versions"],
        "trained_on": making["trained_on"],
        "algorithm": making["recipe"],
        "own_recipe": making["own_recipe"],
        # Of an own recipe these are the words of whoever wrote it.
        "paper": making["paper"],
        "variant": making["variant"],
        "status_of_published_claim": None if making["own_recipe"] else making["claim"],
        "samplers": "exact integer samplers" + of_parts,
        "randomness": randomness + of_parts,
        "model_sha256": making["digest"],
    }


def _limits(content: dict[str, Any]) -> dict[str, Any]:
    return {
        "threat_model": "an attacker sees the released model and this report, knows the algorithm, and may know all other "
        "records; the noise and the machine that trained the model are out of reach",
        "not_covered": content["not_covered"],
        "notes": content["notes"],
    }


def _evaluation(content: dict[str, Any]) -> dict[str, Any]:
    reliability = content["forest"]["reliability"]
    return {
        "audit": content["audit"],
        "share_of_records_in_leaves_that_stand_out": None if reliability is None else reliability["standing_out"],
        "utility": _utility(content["evaluation"]),
    }


def _utility(evaluation: dict[str, Any] | None) -> dict[str, Any] | None:
    """How good the model is, and on which rows at which price; None if nobody evaluated it."""
    if evaluation is None:
        return None
    names = ("scores", "n_rows", "n_rows_margin", "public", "epsilon", "unit", "rows", "loss")
    return {name: evaluation[name] for name in names}
