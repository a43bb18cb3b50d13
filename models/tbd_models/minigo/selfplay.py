"""Games of a network against itself: a tree search whose leaves the network judges in batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tbd_models.minigo import HISTORY, PLANES, Dimensions, SelfPlay
from tbd_models.minigo.go import BLACK, Position
from tbd_models.synthetic import Batch, go_batch

Array = NDArray[np.float32]
Judge = Callable[[Array], tuple[Array, Array]]
"""From positions (N, 17, board, board) to shares of moves (N, moves) and values (N)."""

# As in MLPerf's code: how much priors weigh, and the noise that makes games differ.
_EXPLORATION = 1.38
_NOISE_SHARE = 0.25
_NOISE_TIMES_POINTS = 0.03 * 361
# Positions that training draws from.
_WINDOW = 4096


def planes(position: Position) -> Array:
    """Return a position as the network takes it: (17, board, board), see ``synthetic.go_batch``."""
    size = position.size
    found = np.zeros((PLANES, size * size), np.float32)
    past = position
    for back in range(HISTORY):
        board = np.array(past.board)
        found[2 * back] = board == position.to_play
        found[2 * back + 1] = board == -position.to_play
        past = past.before or past  # at the beginning the board is repeated
    found[-1] = position.to_play == BLACK
    return found.reshape(PLANES, size, size)


class Node:
    """A position in the tree, with what was found out about every move from it.

    Attributes:
        position: the position.
        parent: the node before, with the move that led here; None for the root.
        prior: share of each move by the network; None until it was judged.
        visits: how often each move was searched.
        total: sum of the values found, for the player to move here.
        children: nodes by move.
    """

    __slots__ = ("children", "legal", "parent", "position", "prior", "total", "visits")

    def __init__(self, position: Position, parent: tuple[Node, int] | None = None) -> None:
        moves = position.size**2 + 1
        self.position = position
        self.parent = parent
        self.prior: Array | None = None
        self.legal = np.zeros(moves, bool)
        self.visits = np.zeros(moves)
        self.total = np.zeros(moves)
        self.children: dict[int, Node] = {}

    def best(self) -> int:
        """Return the move to search next (PUCT)."""
        assert self.prior is not None
        reach = _EXPLORATION * np.sqrt(1 + self.visits.sum()) / (1 + self.visits)
        value = self.total / (1 + self.visits)
        return int(np.argmax(np.where(self.legal, value + reach * self.prior, -np.inf)))

    def child(self, move: int) -> Node:
        """Return the node after a move, made where it is new."""
        if move not in self.children:
            self.children[move] = Node(self.position.play(move), (self, move))
        return self.children[move]

    def judged(self, prior: Array) -> None:
        """Take the network's shares of moves, of which legal ones remain."""
        self.legal[:] = self.position.legal()
        kept = prior * self.legal
        self.prior = kept / max(float(kept.sum()), 1e-9)

    def assume_lost(self) -> None:
        """Count a loss for the player of every move that leads here: others are searched next."""
        for node, move in self._path():
            node.total[move] -= 1
            node.visits[move] += 1

    def told(self, value: float, *, assumed_lost: bool = False) -> None:
        """Tell every node above what the player to move here can expect.

        Args:
            value: from -1 to 1.
            assumed_lost: whether this takes the place of a loss that was assumed.
        """
        for node, move in self._path():
            value = -value
            node.total[move] += value + assumed_lost
            node.visits[move] += not assumed_lost

    def _path(self) -> Iterator[tuple[Node, int]]:
        node = self
        while node.parent is not None:
            yield node.parent
            node = node.parent[0]


class Search:
    """The tree of one game.

    Args:
        root: where the game is.
        komi: points that White has from the start.
        longest: moves after which a game is over.
    """

    def __init__(self, root: Node, komi: float, longest: int) -> None:
        self.root = root
        self._komi = komi
        self._longest = longest
        self._noisy = False

    def is_over(self, position: Position) -> bool:
        """Tell whether a game has ended."""
        return position.over or position.moves >= self._longest

    def result(self, position: Position) -> float:
        """Return 1 where the player to move of a game that is over has won, else -1."""
        return 1.0 if (position.score(self._komi) > 0) == (position.to_play == BLACK) else -1.0

    def leaves(self, count: int) -> list[Node]:
        """Return nodes to judge, at most ``count``: each counts as lost until it has been."""
        found: list[Node] = []
        for _ in range(count):
            node = self.root
            while node.prior is not None and not self.is_over(node.position):
                node = node.child(node.best())
            if self.is_over(node.position):
                node.told(self.result(node.position))
                continue
            if node in found:
                break  # nothing else is worth a look
            node.assume_lost()
            found.append(node)
        return found

    def absorb(self, node: Node, prior: Array, value: float) -> None:
        """Put the network's judgement in the place of the loss that was assumed."""
        node.judged(prior)
        node.told(value, assumed_lost=True)

    def add_noise(self, rng: np.random.Generator) -> None:
        """Make the root's priors differ from game to game, once they are known."""
        root = self.root
        if root.prior is None or self._noisy:
            return
        self._noisy = True
        legal = np.flatnonzero(root.legal)
        noise = rng.dirichlet(np.full(len(legal), _NOISE_TIMES_POINTS / (len(root.legal) - 1)))
        root.prior = root.prior * np.float32(1 - _NOISE_SHARE)
        root.prior[legal] += (_NOISE_SHARE * noise).astype(np.float32)

    def advance(self, move: int) -> None:
        """Make a move; what was searched below it is kept."""
        self.root = self.root.child(move)
        self.root.parent = None
        self._noisy = False


class Game:
    """A game that is being played, and its positions so far."""

    def __init__(self, d: Dimensions, play: SelfPlay) -> None:
        longest = d.board**2 * 7 // 5
        self.search = Search(Node(Position(d.board)), play.komi, longest)
        self.positions: list[tuple[Position, Array]] = []

    def move(self, rng: np.random.Generator, temperature_moves: int) -> None:
        """Make a move by the visits of the root."""
        root = self.search.root
        shares = (root.visits / root.visits.sum()).astype(np.float32)
        self.positions.append((root.position, shares))
        early = root.position.moves < temperature_moves
        chosen = rng.choice(len(shares), p=shares / shares.sum()) if early else np.argmax(shares)
        self.search.advance(int(chosen))

    def examples(self) -> list[tuple[Position, Array, float]]:
        """Return the positions of a game that is over, each with what its player got."""
        end = self.search.root.position
        result = self.search.result(end)
        return [(p, s, result if p.to_play == end.to_play else -result) for p, s in self.positions]


class Players:
    """As many games side by side as a batch has positions; each batch is one move of every game.

    Args:
        d: dimensions of network and search.
        judge: the network.
    """

    def __init__(self, d: Dimensions, judge: Judge) -> None:
        assert d.self_play is not None
        self._d = d
        self._play = d.self_play
        self._judge = judge
        self._games: list[Game] = []
        self._window: deque[tuple[Position, Array, float]] = deque(maxlen=_WINDOW)

    def batch(self, size: int, rng: np.random.Generator) -> Batch:
        """Make a move in every game; return positions of games that are over.

        Until the first games are, positions are synthetic.
        """
        if len(self._games) != size:
            self._games = [Game(self._d, self._play) for _ in range(size)]
        self._think(rng)
        for number, game in enumerate(self._games):
            game.move(rng, self._play.temperature_moves)
            if game.search.is_over(game.search.root.position):
                self._window.extend(game.examples())
                self._games[number] = Game(self._d, self._play)
        if not self._window:
            return go_batch(size, self._d.board, rng)
        drawn = [self._window[n] for n in rng.integers(len(self._window), size=size)]
        return {
            "position": np.stack([planes(position) for position, _, _ in drawn]),
            "policy": np.stack([shares for _, shares, _ in drawn]),
            "value": np.array([value for _, _, value in drawn], np.float32),
        }

    def _think(self, rng: np.random.Generator) -> None:
        """Search every game's tree; a round takes leaves of all games to the network at once."""
        for _ in range(-(-self._play.readouts // self._play.leaves)):
            for game in self._games:
                game.search.add_noise(rng)
            self._round()

    def _round(self) -> None:
        """Judge leaves of all games; as many at a time whatever there are, so shapes stay."""
        found = [(g.search, n) for g in self._games for n in g.search.leaves(self._play.leaves)]
        shape = (len(self._games) * self._play.leaves, PLANES, self._d.board, self._d.board)
        positions = np.zeros(shape, np.float32)
        for number, (_, node) in enumerate(found):
            positions[number] = planes(node.position)
        policy, value = self._judge(positions)
        for (search, node), prior, expected in zip(found, policy, value, strict=False):
            search.absorb(node, prior, float(expected))
