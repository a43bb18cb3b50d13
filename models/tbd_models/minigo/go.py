"""The rules of Go: captures, no suicide, positional superko, area scoring (Tromp-Taylor)."""

from __future__ import annotations

import random
from functools import cache

EMPTY, BLACK, WHITE = 0, 1, -1


@cache
def neighbours(size: int) -> tuple[tuple[int, ...], ...]:
    """Return the neighbours of each point of a board; points are numbered row by row."""
    beside = []
    for point in range(size * size):
        row, column = divmod(point, size)
        around = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
        beside.append(tuple(r * size + c for r, c in around if 0 <= r < size and 0 <= c < size))
    return tuple(beside)


@cache
def _numbers(size: int) -> dict[tuple[int, int], int]:
    # Zobrist hashing: a board's hash is the exclusive or of a random number per stone.
    rng = random.Random(size)
    return {(p, c): rng.getrandbits(64) for p in range(size * size) for c in (BLACK, WHITE)}


class Position:
    """An immutable position in a game; a move returns a new one."""

    # board: BLACK, WHITE or EMPTY per point; passes: consecutive passes; before: last position.
    __slots__ = ("_groups", "_hash", "_seen", "before", "board", "moves", "passes", "size",
                 "to_play")  # fmt: skip

    def __init__(self, size: int, board: tuple[int, ...] = (), to_play: int = BLACK) -> None:
        """Start a game from a board, by default the empty one."""
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
        """Return True if both players have passed."""
        return self.passes >= 2

    def groups(self) -> list[tuple[set[int], set[int]] | None]:
        """Return (stones, liberties) of the group at each point, None for empty points."""
        if self._groups is None:
            self._groups = [None] * len(self.board)
            for point, colour in enumerate(self.board):
                if colour and self._groups[point] is None:
                    group = self._spread(point)
                    for stone in group[0]:
                        self._groups[stone] = group
        return self._groups

    def _spread(self, start: int) -> tuple[set[int], set[int]]:
        # Flood fill over points of equal colour; also collects the empty neighbours.
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
        """Return the stones that the player to move would capture by a stone at an empty point."""
        captured: set[int] = set()
        groups = self.groups()
        for other in neighbours(self.size)[point]:
            group = groups[other]
            if group and self.board[other] == -self.to_play and len(group[1]) == 1:
                captured |= group[0]
        return captured

    def is_legal(self, move: int) -> bool:
        """Return True if the player to move may play at a point, or pass (move ``size²``)."""
        if move == len(self.board):
            return True
        if self.board[move] != EMPTY:
            return False
        captured = self.captures(move)
        if not captured and not self._has_liberty(move):
            return False
        # Positional superko: no position of the game may come again.
        return self._hash_after(move, captured) not in self._seen

    def _has_liberty(self, point: int) -> bool:
        groups = self.groups()
        for other in neighbours(self.size)[point]:
            group = groups[other]
            if group is None or (self.board[other] == self.to_play and len(group[1]) > 1):
                return True
        return False

    def _hash_after(self, point: int, captured: set[int]) -> int:
        numbers = _numbers(self.size)
        result = self._hash ^ numbers[point, self.to_play]
        for stone in captured:
            result ^= numbers[stone, -self.to_play]
        return result

    def legal(self) -> list[bool]:
        """Return for each move whether it is legal; passing is last."""
        return [self.is_legal(move) for move in range(len(self.board) + 1)]

    def play(self, move: int) -> Position:
        """Return the position after a legal move."""
        # Not by __init__, which would hash the board again.
        after = Position.__new__(Position)
        after.size, after.to_play = self.size, -self.to_play
        after.moves, after.before = self.moves + 1, self
        after._groups = None
        if move == len(self.board):
            after.board, after._hash, after._seen = self.board, self._hash, self._seen
            after.passes = self.passes + 1
            return after
        captured = self.captures(move)
        board = list(self.board)
        board[move] = self.to_play
        for stone in captured:
            board[stone] = EMPTY
        after.board, after.passes = tuple(board), 0
        after._hash = self._hash_after(move, captured)
        after._seen = self._seen | {after._hash}
        return after

    def score(self, komi: float) -> float:
        """Return Black's area (stones and enclosed points) minus White's area and the komi."""
        area, beside = sum(self.board), neighbours(self.size)
        left = {point for point, colour in enumerate(self.board) if colour == EMPTY}
        while left:
            region, _ = self._spread(left.pop())
            left -= region
            borders = {self.board[p] for point in region for p in beside[point]} - {EMPTY}
            if len(borders) == 1:  # a region that touches both colours belongs to neither
                area += borders.pop() * len(region)
        return area - komi
