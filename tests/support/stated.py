"""The loss of a model from its printed ledger, by an accountant of another house."""

import math

import dp_accounting
import numpy as np
from dp_accounting.rdp import RdpAccountant


def event_of(entry, unit, price):
    """An entry as the library of another house has it, and its loss; of parallel parts the dearest."""
    if "scope" not in entry:
        loss = price(entry, unit)
        return loss, dp_accounting.LaplaceDpEvent(1 / loss) if unit == "epsilon" else dp_accounting.ZCDpEvent(loss)
    parts = [event_of(child, unit, price) for child in entry["children"]]
    if entry["kind"] == "parallel":
        loss, event = max(parts, key=lambda part: part[0])
    else:
        loss, event = math.fsum(part[0] for part in parts), dp_accounting.ComposedDpEvent([part[1] for part in parts])
    if entry["kind"] == "bootstrap":
        assert unit == "epsilon"
        loss = math.expm1(loss)
        event = dp_accounting.LaplaceDpEvent(1 / loss)
    return entry["copies"] * loss, dp_accounting.SelfComposedDpEvent(event, entry["copies"])


def epsilon_of(document, price=lambda charge, unit: charge["amount"]):
    """The epsilon of all books by dp_accounting. Laplace noise stands for any pure loss: at huge orders its epsilon.

    Charges of a sample cost e inside of it at delta / q, and log(1 + q (exp(e) - 1)) on the table.
    """
    total, rows = 0.0, document["rows_of_unit"]
    for book in document["books"]:
        _, event = event_of(book["root"], book["unit"], price)
        share = book.get("sample_share", 1.0)
        if book["unit"] == "epsilon":
            accountant, delta, of_group = RdpAccountant([1e9]), 1e-12, rows
        else:
            accountant, of_group = RdpAccountant(1 + np.geomspace(1e-2, 1e5, 50_000)), rows**2
            delta = min(book["delta"] / share, max(book["delta"], 0.01)) - book.get("threshold_delta", 0.0)
        accountant.compose(event, of_group)
        total += math.log1p(share * math.expm1(accountant.get_epsilon(delta)))
    assert math.fsum(book["delta"] for book in document["books"]) <= document["delta"]
    return total
