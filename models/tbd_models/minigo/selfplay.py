"""Self-play of a network: tree search whose leaves the network evaluates in batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tbd_models.minigo import HISTORY, PLANES, Dimensions, SelfPlay
from tbd_models.minigo.go import BLACK, Position
from tbd_models.synthetic import Batch, go_batch

Array = NDArray[np.float32]
# From positions (N, 17, board, board) to move probabilities (N, moves) and values (N).
Evaluator = Callable[[Array], tuple[Array, Array]]

# From MLPerf's code: weight of the priors (PUCT), and Dirichlet noise that varies the games; its
# concentration is 0.03 for the 361 points of a 19x19 board.
_EXPLORATION = 1.38
_NOISE_SHARE = 0.25
_NOISE_TIMES_POINTS = 0.03 * 361
_WINDOW = 4096  # latest positions that training samples from


def planes(position: Position) -> Array:
    """Return a position as network input (17, board, board); see ``synthetic.go_batch``."""
    size = position.size
    channels = np.zeros((PLANES, size * size), np.float32)
    past = position
    for back in range(HISTORY):
        board = np.array(past.board)
        channels[2 * back] = board == position.to_play
        channels[2 * back + 1] = board == -position.to_play
        past = past.before or past  # repeat the first board before the game's start
    channels[-1] = position.to_play == BLACK
    return channels.reshape(PLANES, size, size)


class Node:
    """A position in the search tree, with the search results of each move from it."""

    # parent: (node, move that led here), None for the root; prior: move probabilities, None until
    # evaluated; visits: searches per move; total: sum of values for the player to move here.
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
        """Return the move to search next by PUCT (Silver et al. 2017)."""
        assert self.prior is not None
        reach = _EXPLORATION * np.sqrt(1 + self.visits.sum()) / (1 + self.visits)
        value = self.total / (1 + self.visits)
        return int(np.argmax(np.where(self.legal, value + reach * self.prior, -np.inf)))

    def child(self, move: int) -> Node:
        """Return the node after a move, creating it if needed."""
        if move not in self.children:
            self.children[move] = Node(self.position.play(move), (self, move))
        return self.children[move]

    def expand(self, prior: Array) -> None:
        """Store the network's move probabilities, normalized over the legal moves."""
        self.legal[:] = self.position.legal()
        legal = prior * self.legal
        self.prior = legal / max(float(legal.sum()), 1e-9)

    def assume_lost(self) -> None:
        """Add a virtual loss on the path to this node, so that the next search takes another."""
        for node, move in self._path():
            node.total[move] -= 1
            node.visits[move] += 1

    def back_up(self, value: float, *, assumed_lost: bool = False) -> None:
        """Add a value from -1 to 1, for the player to move here, to all nodes above.

        ``assumed_lost`` replaces a virtual loss instead of counting another visit.
        """
        for node, move in self._path():
            value = -value  # the players alternate
            node.total[move] += value + assumed_lost
            node.visits[move] += not assumed_lost

    def _path(self) -> Iterator[tuple[Node, int]]:
        node = self
        while node.parent is not None:
            yield node.parent
            node = node.parent[0]


class Search:
    """The search tree of a game; after ``longest`` moves a game is over."""

    def __init__(self, root: Node, komi: float, longest: int) -> None:
        self.root = root
        self._komi = komi
        self._longest = longest
        self._noisy = False

    def is_over(self, position: Position) -> bool:
        """Return True if the game has ended."""
        return position.over or position.moves >= self._longest

    def result(self, position: Position) -> float:
        """Return 1 if the player to move has won a finished game, else -1."""
        return 1.0 if (position.score(self._komi) > 0) == (position.to_play == BLACK) else -1.0

    def leaves(self, count: int) -> list[Node]:
        """Return at most ``count`` nodes to evaluate, each with a virtual loss."""
        leaves: list[Node] = []
        for _ in range(count):
            node = self.root
            while node.prior is not None and not self.is_over(node.position):
                node = node.child(node.best())
            if self.is_over(node.position):
                node.back_up(self.result(node.position))
                continue
            if node in leaves:
                break  # even with virtual losses the search returns to the same leaf
            node.assume_lost()
            leaves.append(node)
        return leaves

    def absorb(self, node: Node, prior: Array, value: float) -> None:
        """Replace the virtual loss of a node by the network's evaluation."""
        node.expand(prior)
        node.back_up(value, assumed_lost=True)

    def add_noise(self, rng: np.random.Generator) -> None:
        """Mix noise into the root's priors once they are known, so that games differ."""
        root = self.root
        if root.prior is None or self._noisy:
            return
        self._noisy = True
        legal = np.flatnonzero(root.legal)
        noise = rng.dirichlet(np.full(len(legal), _NOISE_TIMES_POINTS / (len(root.legal) - 1)))
        root.prior = root.prior * np.float32(1 - _NOISE_SHARE)
        root.prior[legal] += (_NOISE_SHARE * noise).astype(np.float32)

    def advance(self, move: int) -> None:
        """Make a move and keep the subtree below it."""
        self.root = self.root.child(move)
        self.root.parent = None
        self._noisy = False


class Game:
    """A game in progress and its positions."""

    def __init__(self, d: Dimensions, play: SelfPlay) -> None:
        # MLPerf's limit of 1.4 moves per point.
        longest = d.board**2 * 7 // 5
        self.search = Search(Node(Position(d.board)), play.komi, longest)
        self.positions: list[tuple[Position, Array]] = []

    def move(self, rng: np.random.Generator, temperature_moves: int) -> None:
        """Make a move chosen by the visits of the root's moves."""
        root = self.search.root
        shares = (root.visits / root.visits.sum()).astype(np.float32)
        self.positions.append((root.position, shares))
        early = root.position.moves < temperature_moves
        # Normalized again: float32 shares may miss the sum of 1 that rng.choice requires.
        chosen = rng.choice(len(shares), p=shares / shares.sum()) if early else np.argmax(shares)
        self.search.advance(int(chosen))

    def examples(self) -> list[tuple[Position, Array, float]]:
        """Return the positions of a finished game with the result for their player to move."""
        end = self.search.root.position
        result = self.search.result(end)
        return [(p, s, result if p.to_play == end.to_play else -result) for p, s in self.positions]


class Players:
    """Games played in parallel, one per position of a batch; each batch makes one move in all."""

    def __init__(self, d: Dimensions, evaluate: Evaluator) -> None:
        assert d.self_play is not None
        self._d = d
        self._play = d.self_play
        self._evaluate = evaluate
        self._games: list[Game] = []
        self._window: deque[tuple[Position, Array, float]] = deque(maxlen=_WINDOW)

    def batch(self, size: int, rng: np.random.Generator) -> Batch:
        """Make a move in each game; return positions of finished games, at first synthetic ones."""
        if len(self._games) != size:
            self._games = [Game(self._d, self._play) for _ in range(size)]
        self._search(rng)
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

    def _search(self, rng: np.random.Generator) -> None:
        for _ in range(-(-self._play.readouts // self._play.leaves)):
            for game in self._games:
                game.search.add_noise(rng)
            self._round()

    def _round(self) -> None:
        # Padded to a constant number of positions, so that the network's shapes do not change.
        leaves = [(g.search, n) for g in self._games for n in g.search.leaves(self._play.leaves)]
        shape = (len(self._games) * self._play.leaves, PLANES, self._d.board, self._d.board)
        positions = np.zeros(shape, np.float32)
        for number, (_, node) in enumerate(leaves):
            positions[number] = planes(node.position)
        policy, value = self._evaluate(positions)
        for (search, node), prior, expected in zip(leaves, policy, value, strict=False):
            search.absorb(node, prior, float(expected))
