"""What an audit says about the recipe of a model. Public values only."""

from typing import Any

from dpforest.errors import ParameterError
from dpforest.privacy.statement import Statement

WANTED = "audit must be what `dpforest audit --json` prints: a dictionary with the entries 'audits' and 'attacks'"


def audit_content(audit: dict[str, Any] | None, statement: Statement) -> dict[str, Any]:
    """The entries about this recipe and variant, and the names of the others."""
    content: dict[str, Any] = {
        "attached": audit is not None,
        "command": f"dpforest audit --recipe {statement.recipe or 'NAME'} --json",
        "entries": [],
        "others": [],
        "attacks": [],
    }
    if audit is None:
        return content
    if not isinstance(audit, dict) or not isinstance(audit.get("audits"), list):
        raise ParameterError(f"{WANTED}.")
    try:
        for entry in audit["audits"]:
            if (entry["recipe"], entry["variant"]) == (statement.recipe, statement.variant):
                content["entries"].append(_entry(entry))
            else:
                content["others"].append({"recipe": str(entry["recipe"]), "variant": str(entry["variant"])})
        for attack in audit.get("attacks") or []:
            if (attack["recipe"], attack["variant"]) == (statement.recipe, statement.variant):
                content["attacks"].append(_attack(attack))
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ParameterError(f"{WANTED}; an entry of this one is incomplete.") from None
    return content


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
