"""Made-up ratings."""

import torch


class Ratings:
    """Users, items and stars, brought to mean 0."""

    def __init__(self, users, items, stars):
        self.users, self.items, self.stars = users, items, stars
        self.mean = stars.mean()
        self.stars.sub_(self.mean)

    def batches(self, size):
        """Yields rows in a new order."""
        for rows in torch.randperm(len(self.stars)).split(size):
            yield self.users[rows], self.items[rows], self.stars[rows]


def make_ratings(users, items, count):
    """Returns ratings that depend on a taste."""
    who, what = torch.randint(users, (count,)), torch.randint(items, (count,))
    return Ratings(who, what, 3.0 + ((who + what) % 3).float())
