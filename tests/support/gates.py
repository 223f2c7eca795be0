"""A gate without noise that remembers, and what a gate runs mechanisms at."""

import numpy as np
from tests.support.encoded import opened

from dpforest.audit.tape import Tape
from dpforest.mechanisms import Entropy
from dpforest.privacy.accountants import Pure
from dpforest.privacy.bounds import Sensitivity
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed


class KeepingGate:
    """Keeps what it is handed and what was stated about it; releases it as it is, or what it was told to."""

    def __init__(self, released=None):
        self.ledger, self.values, self.stated, self._released = Ledger(Pure(1.0)), None, None, released

    def add_noise(self, values, sensitivity, amount, label):
        self.values, self.stated = opened(values).copy(), sensitivity
        return self.values.copy() if self._released is None else self._released, 1.0

    def select(self, scores, valid, bound, amount, label):
        assert valid is None
        self.values, self.stated = opened(scores).copy(), bound
        return self.values.argmax(axis=1)


def scale_of(accountant, ask, *given):
    """The rate, or the variance, at which a mechanism ran what the named method of a gate was asked for, as a fraction."""
    tape = Tape(0, extra_first=False)
    getattr(tape.watch(Gate(Ledger(accountant), Entropy(0))), ask)(*given)
    ((run,),) = (query.runs for query in tape.queries)
    return run.spread


def scale_of_a_count(accountant):
    """The same, for one count that is paid with all of the budget."""
    return scale_of(accountant, "add_noise", Sealed(np.zeros(1, int)), Sensitivity(1, 1), accountant.budget, "n")
