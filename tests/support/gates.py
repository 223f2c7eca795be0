"""A gate without noise that remembers."""

from tests.support.encoded import opened


class KeepingGate:
    """Keeps what it is handed and what was stated about it; releases it as it is."""

    def add_noise(self, values, sensitivity, amount, label):
        self.values, self.stated = opened(values).copy(), sensitivity
        return self.values.copy(), 1.0

    def select(self, scores, valid, bound, amount, label):
        assert valid is None
        self.values, self.stated = opened(scores).copy(), bound
        return self.values.argmax(axis=1)
