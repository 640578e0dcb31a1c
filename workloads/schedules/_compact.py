"""Orders compacted forwards and backwards in time: the search behind all searched schedules.

The search starts from orders that are legal and hold little, such as a building block repeated, and compacts them: an
order is replayed with every rank free to take up a later action while the one in turn has to wait, first from the end
of the step towards its start, then from the start on, and so forth. This is forward-backward improvement, known from
projects with scarce resources (Li and Willis, European Journal of Operational Research 56, 1992); here chunks in
flight are what is scarce. No order found holds more than it may, and none deadlocks: an action only moves ahead
of others if those remain legal in the order in which they stand. Equal input gives equal schedules, on any machine.
"""

import heapq
import random
from bisect import insort
from collections.abc import Callable, Sequence
from itertools import product
from math import inf

from workloads.schedules._timing import Figures, Limits, Orders, Pipeline

Score = tuple[float, ...]
Judge = Callable[[Figures], Score]
PATIENCE = (1.0, 0.0, 0.5)
SHAKEN = (1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0)
ROUNDING = 1e-9
ASTRAY, MIRRORED, STAGGERED = 0.2, 0.5, 0.8
SETTLED, FEWEST, PASSES = 3, 4, 5
FRUITLESS = 120


class Search:
    """Compaction of orders within limits, until no better score can be or the work allowed is done.

    `judge` turns figures into a score, the lowest of which is best; a score of `goal` or below will do. Work is counted
    in actions replayed.
    """

    def __init__(self, pipeline: Pipeline, limits: Limits, judge: Judge, work: int, goal: Score | None = None) -> None:
        self.pipeline, self.limits, self.judge, self.work = pipeline, limits, judge, work
        self.goal = goal or judge(pipeline.least)[:2]
        self.score: Score = (inf,)
        self.orders: Orders = []
        self.rng = random.Random(0)

    def best_of(self, starts: Sequence[Orders]) -> tuple[Score, Orders]:
        """The best order found from some that keep the limits, and its score.

        The first of them, as many as take half of the work, are compacted in two ways, the most promising until nothing
        helps any more, and the best with patience at random.
        """
        starts = starts[: max(FEWEST, self.work // (2 * PASSES * len(self.pipeline.lengths)))]
        tried = [(self.judged(start), start) for start in starts]
        self.score, self.orders = min(tried, key=_score)
        patient = [1.0] * self.pipeline.ranks
        for start, staggered in product(starts, (False, True)):
            tried.append(self.there_and_back(start, patient, mirrored=True, staggered=staggered))
        for score, orders in sorted(tried, key=_score)[:SETTLED]:
            self.settle(score, orders)
        self.shake()
        return self.score, self.orders

    @property
    def over(self) -> bool:
        """Whether the search may end."""
        return self.work <= 0 or self.score[: len(self.goal)] <= self.goal

    def settle(self, score: Score, orders: Orders) -> None:
        """Compact an order in all ways in turn until none of them helps."""
        best = inf, *score
        while score < best and not self.over:
            best = score
            for patience, staggered, mirrored in product(PATIENCE, (False, True), (True, False)):
                alike = [patience] * self.pipeline.ranks
                found = self.there_and_back(orders, alike, mirrored=mirrored, staggered=staggered)
                if found[0] < score:
                    score, orders = found

    def shake(self) -> None:
        """Go on from the best order with each rank's patience at random, while there is work left."""
        score, orders = self.score, self.orders
        best, fruitless = score, 0
        while fruitless < FRUITLESS and not self.over:
            patience = [self.draw(SHAKEN) for _ in orders]
            mirrored, staggered = self.rng.random() < MIRRORED, self.rng.random() < STAGGERED
            found = self.there_and_back(orders, patience, mirrored=mirrored, staggered=staggered)
            best, fruitless = (self.score, 0) if self.score < best else (best, fruitless + 1)
            if found[0] <= score or self.rng.random() < ASTRAY:
                score, orders = found

    def draw(self, values: Sequence[float]) -> float:
        """One of some values at random, the same in all versions of Python."""
        return values[int(self.rng.random() * len(values))]

    def there_and_back(
        self, orders: Orders, patience: Sequence[float], *, mirrored: bool, staggered: bool
    ) -> tuple[Score, Orders]:
        """Compact one way and then the other; the better result."""
        found = []
        for way in (mirrored, not mirrored):
            orders = compacted(self.pipeline, orders, self.limits, patience, mirrored=way, staggered=staggered)
            found.append((self.judged(orders), orders))
        best = min(found, key=_score)
        if best[0] < self.score:
            self.score, self.orders = best
        return best

    def judged(self, orders: Orders) -> Score:
        """The score of orders, which is work."""
        self.work -= len(self.pipeline.lengths)
        return self.judge(self.pipeline.figures(orders))


def _score(found: tuple[Score, Orders]) -> Score:
    return found[0]


def compacted(
    pipeline: Pipeline,
    orders: Orders,
    limits: Limits,
    patience: Sequence[float],
    *,
    mirrored: bool = False,
    staggered: bool = False,
) -> Orders:
    """Orders with later actions taken up while ranks wait; `mirrored` runs from the end of the step to its start.

    A rank takes up a later action if that delays none before it that is known to be due, or delays it by no more than
    1 - `patience` of the later one's length. Mirrored and `staggered`, ranks end as much apart as they begin.
    """
    lines = [order[::-1] for order in orders] if mirrored else orders
    hop = pipeline.times["F"] + pipeline.hop
    begins = [hop * (len(lines) - 1 - rank) if mirrored and staggered else 0.0 for rank in range(len(lines))]
    found = _Compaction(pipeline, lines, limits, patience, mirrored=mirrored).run(begins)
    return [order[::-1] for order in found] if mirrored else found


class _Compaction:
    """One pass. Of each kind on each stage the first action left is a head; heads wait in the order of their line.

    A stage has its microbatches in turn, so that nothing but heads can be ready. Mirrored, what an action feeds is what
    it needs, and it takes up what it let go.
    """

    def __init__(
        self, pipeline: Pipeline, lines: Orders, limits: Limits, patience: Sequence[float], *, mirrored: bool
    ) -> None:
        sign = -1 if mirrored else 1
        self.lines, self.limits, self.patience = lines, limits, patience
        self.lengths, self.placement = pipeline.lengths, pipeline.placement
        self.stages, self.microbatches = pipeline.stages, pipeline.microbatches
        needs, self.feeds = (pipeline.feeds, pipeline.needs) if mirrored else (pipeline.needs, pipeline.feeds)
        self.missing = [len(need) for need in needs]
        self.due = [0.0] * len(needs)
        self.holds = [(sign * inputs, sign * weights) for inputs, weights in pipeline.holds]
        self.held = [(0, 0)] * len(lines)
        self.first = [0] * len(lines)
        self.taken = [[False] * len(line) for line in lines]
        self.heads, self.following = [], []
        for line in lines:
            places: dict[int, int] = {}
            following = [-1] * len(line)
            for place in reversed(range(len(line))):
                queue = line[place] // self.microbatches
                following[place] = places.get(queue, -1)
                places[queue] = place
            self.heads.append(sorted(places.values()))
            self.following.append(following)

    def run(self, free: list[float]) -> Orders:
        """Every rank's new order, in the direction of the pass; `free` is when ranks may begin."""
        events = [(start, rank) for rank, start in enumerate(free)]
        heapq.heapify(events)
        found: Orders = [[] for _ in self.lines]
        while events:
            now, rank = heapq.heappop(events)
            if free[rank] > now:
                continue
            place = self.choose(rank, now)
            if place < 0:
                continue
            action = self.take(rank, place)
            found[rank].append(action)
            end = free[rank] = now + self.lengths[action]
            heapq.heappush(events, (end, rank))
            for target, lag in self.feeds[action]:
                due = end + lag
                if due > self.due[target]:
                    self.due[target] = due
                else:
                    due = self.due[target]
                self.missing[target] -= 1
                if not self.missing[target]:
                    other = self.placement[target // self.microbatches % self.stages]
                    if other != rank or due > end:
                        heapq.heappush(events, (due, other))
        return found

    def choose(self, rank: int, now: float) -> int:
        """Where the action that a rank takes up now is in its line; -1 if it waits."""
        line, patience, soon = self.lines[rank], self.patience[rank] - ROUNDING, inf
        for place in self.heads[rank]:
            action = line[place]
            if self.missing[action]:
                continue
            due = self.due[action]
            if due > now:
                soon = min(soon, due)
            elif soon - now >= patience * self.lengths[action] and self.fits(rank, place):
                return place
        return -1

    def fits(self, rank: int, place: int) -> bool:
        """Whether an action may go ahead of all that are left before it, at no point holding too much."""
        line, taken, allow = self.lines[rank], self.taken[rank], self.limits.allow
        more, held = self.holds[line[place]], self.held[rank]
        if max(more) <= 0:
            return True
        inputs, weights = held[0] + more[0], held[1] + more[1]
        if not allow(inputs, weights):
            return False
        for before in range(self.first[rank], place):
            if not taken[before]:
                change = self.holds[line[before]]
                inputs, weights = inputs + change[0], weights + change[1]
                if not allow(inputs, weights):
                    return False
        return True

    def take(self, rank: int, place: int) -> int:
        """Take an action out of its line; the next of its kind and stage becomes a head."""
        line, taken, heads = self.lines[rank], self.taken[rank], self.heads[rank]
        action = line[place]
        taken[place] = True
        while self.first[rank] < len(line) and taken[self.first[rank]]:
            self.first[rank] += 1
        heads.remove(place)
        if self.following[rank][place] >= 0:
            insort(heads, self.following[rank][place])
        held, change = self.held[rank], self.holds[action]
        self.held[rank] = held[0] + change[0], held[1] + change[1]
        return action
