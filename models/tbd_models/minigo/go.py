"""The rules of Go: captures, no suicide, positional superko, area scoring (Tromp-Taylor)."""

from __future__ import annotations

import random
from functools import cache

EMPTY, BLACK, WHITE = 0, 1, -1


@cache
def neighbours(size: int) -> tuple[tuple[int, ...], ...]:
    """Return the points beside each point of a board; points are numbered row by row."""
    beside = []
    for point in range(size * size):
        row, column = divmod(point, size)
        around = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
        beside.append(tuple(r * size + c for r, c in around if 0 <= r < size and 0 <= c < size))
    return tuple(beside)


@cache
def _numbers(size: int) -> dict[tuple[int, int], int]:
    """Return a random number per stone and point, whose exclusive or stands for a board."""
    rng = random.Random(size)
    return {(p, c): rng.getrandbits(64) for p in range(size * size) for c in (BLACK, WHITE)}


class Position:
    """A position in a game. It does not change: a move makes another one.

    Attributes:
        size: lines of the board in each direction.
        board: ``BLACK``, ``WHITE`` or ``EMPTY`` per point.
        to_play: whose turn it is.
        passes: how many of the last moves were passes.
        moves: moves so far.
        before: the position one move before, None at the beginning.
    """

    __slots__ = ("_groups", "_hash", "_seen", "before", "board", "moves", "passes", "size",
                 "to_play")  # fmt: skip

    def __init__(self, size: int, board: tuple[int, ...] = (), to_play: int = BLACK) -> None:
        """Begin a game; from the empty board unless another one is given."""
        self.size = size
        self.board = board or (EMPTY,) * (size * size)
        self.to_play = to_play
        self.passes = 0
        self.moves = 0
        self.before: Position | None = None
        self._hash = 0
        for point, colour in enumerate(self.board):
            if colour:
                self._hash ^= _numbers(size)[point, colour]
        self._seen = frozenset((self._hash,))
        self._groups: list[tuple[set[int], set[int]] | None] | None = None

    @property
    def over(self) -> bool:
        """Whether both players have passed."""
        return self.passes >= 2

    def groups(self) -> list[tuple[set[int], set[int]] | None]:
        """Return the group of each point, None where it is empty: its stones and its liberties."""
        if self._groups is None:
            self._groups = [None] * len(self.board)
            for point, colour in enumerate(self.board):
                if colour and self._groups[point] is None:
                    group = self._spread(point)
                    for stone in group[0]:
                        self._groups[stone] = group
        return self._groups

    def _spread(self, start: int) -> tuple[set[int], set[int]]:
        """Return the points of equal colour that hang together, and the empty ones beside them."""
        beside, board = neighbours(self.size), self.board
        inside, liberties, waiting = {start}, set(), [start]
        while waiting:
            for point in beside[waiting.pop()]:
                if board[point] == board[start]:
                    if point not in inside:
                        inside.add(point)
                        waiting.append(point)
                elif board[point] == EMPTY:
                    liberties.add(point)
        return inside, liberties

    def captures(self, point: int) -> set[int]:
        """Return the stones that a stone of the player to move at an empty point would capture."""
        taken: set[int] = set()
        groups = self.groups()
        for other in neighbours(self.size)[point]:
            group = groups[other]
            if group and self.board[other] == -self.to_play and len(group[1]) == 1:
                taken |= group[0]
        return taken

    def is_legal(self, move: int) -> bool:
        """Tell whether the player to move may play at a point, or pass (``size²``)."""
        if move == len(self.board):
            return True
        if self.board[move] != EMPTY:
            return False
        taken = self.captures(move)
        return (bool(taken) or self._breathes(move)) and self._after(move, taken) not in self._seen

    def _breathes(self, point: int) -> bool:
        """Tell whether a stone that captures nothing would have a liberty."""
        groups = self.groups()
        for other in neighbours(self.size)[point]:
            group = groups[other]
            if group is None or (self.board[other] == self.to_play and len(group[1]) > 1):
                return True
        return False

    def _after(self, point: int, taken: set[int]) -> int:
        numbers = _numbers(self.size)
        result = self._hash ^ numbers[point, self.to_play]
        for stone in taken:
            result ^= numbers[stone, -self.to_play]
        return result

    def legal(self) -> list[bool]:
        """Return for each move whether it is legal, passing last."""
        return [self.is_legal(move) for move in range(len(self.board) + 1)]

    def play(self, move: int) -> Position:
        """Return the position after a legal move."""
        then = Position.__new__(Position)
        then.size, then.to_play = self.size, -self.to_play
        then.moves, then.before = self.moves + 1, self
        then._groups = None
        if move == len(self.board):
            then.board, then._hash, then._seen = self.board, self._hash, self._seen
            then.passes = self.passes + 1
            return then
        taken = self.captures(move)
        board = list(self.board)
        board[move] = self.to_play
        for stone in taken:
            board[stone] = EMPTY
        then.board, then.passes = tuple(board), 0
        then._hash = self._after(move, taken)
        then._seen = self._seen | {then._hash}
        return then

    def score(self, komi: float) -> float:
        """Return Black's area less White's and the komi: stones, and what they alone enclose."""
        area, beside = sum(self.board), neighbours(self.size)
        left = {point for point, colour in enumerate(self.board) if colour == EMPTY}
        while left:
            region, _ = self._spread(left.pop())
            left -= region
            borders = {self.board[p] for point in region for p in beside[point]} - {EMPTY}
            if len(borders) == 1:
                area += borders.pop() * len(region)
        return area - komi
