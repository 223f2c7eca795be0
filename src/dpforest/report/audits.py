"""What an audit says about the recipe of a model. Public values only."""

from typing import Any

from dpforest.errors import ParameterError
from dpforest.privacy.statement import Statement

# For a recipe that the command does not know by name.
OWN = 'model.save_report(path, {"audits": [audit(Subject(recipe)).to_dict()]})'
WANTED = "audit must be what `dpforest audit --json` prints: a dictionary with the entries 'audits' and 'attacks'"


def audit_content(audit: dict[str, Any] | None, statement: Statement) -> dict[str, Any]:
    """The entries about this recipe and variant, and the names of the others.

    What an audit says of a recipe of the catalogue says nothing of an own one by the same name, nor the other way round.
    """
    is_own = statement.own_recipe or bool(statement.outside)
    wanted = (statement.recipe, statement.variant, is_own)
    content: dict[str, Any] = {
        "attached": audit is not None,
        "command": OWN if is_own else f"dpforest audit --recipe {statement.recipe or 'NAME'} --json",
        "entries": [],
        "others": [],
        "attacks": [],
        "found": "none was attached",
        "broken": False,
    }
    if audit is None:
        return content
    if not isinstance(audit, dict) or not isinstance(audit.get("audits"), list):
        raise ParameterError(f"{WANTED}.")
    try:
        for entry in audit["audits"]:
            if (entry["recipe"], entry["variant"], bool(entry.get("own", False))) == wanted:
                content["entries"].append(_entry(entry))
            else:
                content["others"].append({"recipe": str(entry["recipe"]), "variant": str(entry["variant"])})
        for attack in audit.get("attacks") or []:
            if (attack["recipe"], attack["variant"], bool(attack.get("own", False))) == wanted:
                content["attacks"].append(_attack(attack))
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ParameterError(f"{WANTED}; an entry of this one is incomplete.") from None
    content["broken"] = any(entry["broken"] for entry in content["entries"])
    content["found"] = _in_words(content)
    return content


def _in_words(content: dict[str, Any]) -> str:
    """What an audit that is attached found about this recipe."""
    if not content["entries"]:
        return "the one that was attached is about other algorithms"
    n_findings = sum(len(entry["findings"]) for entry in content["entries"])
    if content["broken"]:
        return f"it broke the claim, with {n_findings} {'finding' if n_findings == 1 else 'findings'}"
    return "it found nothing, which does not prove the claim"


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    replay, bound = entry["replay"], entry["lower_bound"]
    findings = [str(finding["words"]) for finding in (replay or {}).get("findings", [])]
    if bound is not None and bound["exceeds"]:
        findings.append(str(bound["words"]))
    return {
        "verdict": str(entry["verdict"]),
        "broken": entry["verdict"] != "nothing found",
        "claimed": float(entry["epsilon"] if bound is None else bound["claimed"]),
        "epsilon": float(entry["epsilon"]),
        "delta": float(entry["delta"]),
        "lower_bound": None if bound is None else float(bound["epsilon"]),
        "confidence": None if bound is None else float(bound["confidence"]),
        "fits": None if bound is None else int(bound["n_tested"]),
        "pairs": None if replay is None else int(replay["n_pairs"]),
        "closest": None if replay is None or findings else float(replay["closest"]),
        "findings": findings,
    }


def _attack(attack: dict[str, Any]) -> dict[str, Any]:
    return {
        "table": str(attack["table"]),
        "n_rows": int(attack["n_rows"]),
        "epsilon": float(attack["epsilon"]),
        "delta": float(attack["delta"]),
        "found": float(attack["tpr_at_1_percent"]),
        "allowed": float(attack["allowed"]),
    }
