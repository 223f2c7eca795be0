"""A gate without noise that remembers."""

from tests.support.encoded import opened

from dpforest.privacy.accountants import Pure
from dpforest.privacy.ledger import Ledger


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
