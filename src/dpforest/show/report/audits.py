"""What the report says of an audit that is attached to it. Sees results of audits and the statement, no rows."""

from typing import Any

from dpforest.common.text import counted
from dpforest.errors import ParameterError
from dpforest.privacy.statement import Statement
from dpforest.recipes import get_recipe
from dpforest.recipes.catalogue import fingerprint

# For a recipe that the command does not know by name.
OWN = 'model.save_report(path, {"audits": [audit(Subject(recipe)).to_dict()]})'
WANTED = "audit must be what `dpforest audit --json` prints: a dictionary with the entries 'audits' and 'attacks'"


def audit_content(audit: dict[str, Any] | None, statement: Statement) -> dict[str, Any]:
    """What the report says of an audit: its entries about this recipe and variant, and the names of the others.

    What an audit says of a recipe of the catalogue says nothing of an own one by the same name, nor of other parts under it.
    """
    entries, others, attacks, by_name_only, found = [], [], [], False, "none was attached"
    if audit is not None:
        if not isinstance(audit, dict) or not isinstance(audit.get("audits"), list):
            raise ParameterError(f"{WANTED}.")
        try:
            own = [entry for entry in audit["audits"] if _is_about(entry, statement)]
            entries = [_entry(entry) for entry in own]
            by_name_only = any(not (entry.get("fingerprint") and statement.fingerprint) for entry in own)
            others = [_other(entry, statement) for entry in audit["audits"] if not _is_about(entry, statement)]
            attacks = [_attack(attack) for attack in audit.get("attacks") or [] if _is_about(attack, statement)]
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
            raise ParameterError(f"{WANTED}; an entry of this one is incomplete.") from None
        found = _in_words(entries)
    return {
        "attached": audit is not None, "command": _command(statement), "entries": entries, "others": others,
        "attacks": attacks, "by_name_only": by_name_only, "found": found,
        "broken": any(entry["broken"] for entry in entries),
    }  # fmt: skip


def _is_about(entry: dict[str, Any], statement: Statement) -> bool:
    """Whether an entry is about the algorithm of a model: by its name, and by its fingerprint where both have one."""
    found = entry.get("fingerprint")
    return _is_named(entry, statement) and (not found or statement.fingerprint in ("", found))


def _is_named(entry: dict[str, Any], statement: Statement) -> bool:
    wanted = (statement.recipe, statement.variant, _is_own(statement))
    return (entry["recipe"], entry["variant"], bool(entry.get("own"))) == wanted


def _is_own(statement: Statement) -> bool:
    return statement.own_recipe or bool(statement.outside)


def _other(entry: dict[str, Any], statement: Statement) -> dict[str, str]:
    """The name of another algorithm, and what beside it tells this one from that of the model."""
    which = "the library's" if entry["recipe"] == statement.recipe else ""
    if _is_named(entry, statement):
        which = "with other parts"
    elif entry["variant"] == "published":
        which = "as printed"
    elif entry.get("own"):
        which = "own recipe"
    return {"recipe": str(entry["recipe"]), "variant": str(entry["variant"]), "which": which}


def _command(statement: Statement) -> str:
    """The command that audits the algorithm, or a call in Python if the catalogue does not have it as it ran."""
    try:
        is_known = statement.fingerprint in ("", fingerprint(get_recipe(statement.recipe)))
    except ParameterError:
        is_known = False
    if _is_own(statement) or not is_known:
        return OWN
    variant = " --variant published" if statement.variant == "published" else ""
    return f"dpforest audit --recipe {statement.recipe}{variant} --json"


def _in_words(entries: list[dict[str, Any]]) -> str:
    """What an attached audit found about this recipe, as the end of a sentence."""
    if not entries:
        return "the one that was attached is about other algorithms"
    if any(entry["broken"] for entry in entries):
        return f"it broke the claim, with {counted(sum(len(entry['findings']) for entry in entries), 'finding')}"
    return "it found nothing, which does not prove the claim"


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with values of the kinds that the page expects; raises if it has others, or lacks some."""
    replay, bound = entry["replay"], entry["lower_bound"]
    findings = [str(finding["words"]) for finding in (replay or {}).get("findings", [])]
    findings += [str(bound["words"])] if bound is not None and bound["exceeds"] else []
    return {
        "verdict": str(entry["verdict"]), "broken": entry["verdict"] != "nothing found",
        "claimed": float(entry["epsilon"] if bound is None else bound["claimed"]),
        "epsilon": float(entry["epsilon"]), "delta": float(entry["delta"]),
        "lower_bound": None if bound is None else float(bound["epsilon"]),
        "confidence": None if bound is None else float(bound["confidence"]),
        "fits": None if bound is None else int(bound["n_tested"]),
        "pairs": None if replay is None else int(replay["n_pairs"]),
        "closest": None if replay is None or findings else float(replay["closest"]),
        "findings": findings,
    }  # fmt: skip


def _attack(attack: dict[str, Any]) -> dict[str, Any]:
    return {
        "table": str(attack["table"]), "n_rows": int(attack["n_rows"]), "epsilon": float(attack["epsilon"]),
        "delta": float(attack["delta"]), "found": float(attack["tpr_at_1_percent"]), "allowed": float(attack["allowed"]),
    }  # fmt: skip
