"""The rules of Go and the search that plays it, on positions made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tbd_models.minigo import Dimensions, SelfPlay
from tbd_models.minigo.go import BLACK, WHITE, Position
from tbd_models.minigo.selfplay import Game, Node, Players, Search, planes
from tbd_models.synthetic import go_batch


def position(text: str, to_play: int = BLACK) -> Position:
    """Read a board: X is Black, O is White."""
    rows = text.split()
    stones = {"X": BLACK, "O": WHITE, ".": 0}
    return Position(len(rows), tuple(stones[c] for row in rows for c in row), to_play)


def drawn(p: Position) -> list[str]:
    text = "".join({BLACK: "X", WHITE: "O", 0: "."}[c] for c in p.board)
    return [text[n : n + p.size] for n in range(0, len(text), p.size)]


def uniform(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate without an opinion."""
    moves = positions.shape[-1] ** 2 + 1
    return np.full((len(positions), moves), 1 / moves, np.float32), np.zeros(len(positions))


def test_a_group_without_liberties_is_taken() -> None:
    before = position("""
        .XX..
        XOOX.
        .X...
        .....
        .....
    """)
    assert before.captures(12) == {6, 7}
    assert drawn(before.play(12))[:3] == [".XX..", "X..X.", ".XX.."]


def test_several_groups_are_taken_at_once() -> None:
    before = position("OX... .OX.. OX... X.... .....".replace(" ", "\n"))
    assert before.captures(5) == {0, 6, 10}
    assert drawn(before.play(5))[:3] == [".X...", "X.X..", ".X..."]


def test_suicide_is_illegal_unless_it_captures() -> None:
    eye = position(".O... O.... ..... ..... .....".replace(" ", "\n"))
    assert not eye.is_legal(0)
    assert position("\n".join(drawn(eye)), WHITE).is_legal(0)
    capture = position(".OX.. OX... X.... ..... .....".replace(" ", "\n"))
    assert capture.is_legal(0)
    assert drawn(capture.play(0))[:2] == ["X.X..", ".X..."]


def test_joining_a_group_with_liberties_is_no_suicide() -> None:
    assert position(".X... OX... O.... ..... .....".replace(" ", "\n")).is_legal(0)
    assert not position(".XO.. OXO.. .O... ..... .....".replace(" ", "\n")).is_legal(0)


def test_ko() -> None:
    """A stone that was just taken may not be taken back at once, but after two other moves."""
    before = position("..... .XO.. X.XO. .XO.. .....".replace(" ", "\n"), WHITE)
    taken = before.play(11)
    assert drawn(taken)[2] == "XO.O."
    assert not taken.is_legal(12)
    later = taken.play(24).play(20)
    assert later.is_legal(12)
    assert drawn(later.play(12))[2] == "X.XO."


def test_superko() -> None:
    """A position of long ago is as forbidden as the last but one."""
    start = position("..... .XO.. X.XO. .XO.. .....".replace(" ", "\n"), WHITE)
    taken = start.play(11)
    assert not taken.play(25).play(25).is_legal(12)  # both pass: the board is the same


def test_no_board_comes_twice() -> None:
    """Whatever is played, as long as somebody can move: stones are taken again and again."""
    current = Position(4)
    seen = [current.board]
    while moves := [move for move in range(16) if current.is_legal(move)]:
        current = current.play(moves[len(seen) * 7 % len(moves)])
        seen.append(current.board)
    assert len(seen) > 17  # more moves than points: stones were taken
    assert len(set(seen)) == len(seen)


@pytest.mark.slow
def test_legal_moves_are_those_that_leave_a_new_board() -> None:
    """Beside a slower way to say it, over whole games."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        current, boards = Position(4), {Position(4).board}
        for _ in range(120):
            expected = [_allowed(current, move, boards) for move in range(16)]
            assert current.legal() == [*expected, True]
            moves = np.flatnonzero(expected)
            current = current.play(int(rng.choice(moves)) if len(moves) else 16)
            boards.add(current.board)


def _allowed(p: Position, move: int, boards: set[tuple[int, ...]]) -> bool:
    if p.board[move]:
        return False
    board = list(p.board)
    board[move] = p.to_play
    for colour in (-p.to_play, p.to_play):
        dead = [n for n, c in enumerate(board) if c == colour and not _breathing(board, n, p.size)]
        if dead and colour == p.to_play:
            return False
        for stone in dead:
            board[stone] = 0
    return tuple(board) not in boards


def _breathing(board: list[int], point: int, size: int) -> bool:
    reached, grown = {point}, True
    while grown:
        around = {
            q
            for p in reached
            for q in range(size * size)
            if abs(p // size - q // size) + abs(p % size - q % size) == 1
        }
        if any(board[q] == 0 for q in around):
            return True
        more = {q for q in around if board[q] == board[point]} - reached
        reached, grown = reached | more, bool(more)
    return False


def test_area() -> None:
    walls = position(".XO.. .XO.. .XO.. .XO.. .XO..".replace(" ", "\n"))
    assert walls.score(0) == 10 - 15
    neutral = position(".X.O. .X.O. .X.O. .X.O. .X.O.".replace(" ", "\n"))
    assert neutral.score(0) == 0  # what both border belongs to nobody
    assert neutral.score(7.5) == -7.5
    assert Position(5).score(0) == 0
    assert Position(5).play(12).score(0) == 25


def test_two_passes_end_a_game() -> None:
    once = Position(5).play(25)
    assert not once.over
    assert once.play(25).over
    assert not once.play(3).over


def test_planes_are_the_history_for_the_player_to_move() -> None:
    p = Position(5).play(0).play(1).play(2)  # White's turn
    found = planes(p)
    assert found.shape == (17, 5, 5)
    assert [np.flatnonzero(plane).tolist() for plane in found[:6]] == [
        *([1], [0, 2]),
        *([1], [0]),
        *([], [0]),
    ]
    assert not found[6:].any()
    assert planes(p.play(3))[-1].all()


def searched(p: Position, readouts: int, komi: float = 0.5) -> Node:
    search = Search(Node(p), komi, longest=200)
    while search.root.visits.sum() < readouts:
        leaves = search.leaves(4)
        policy, value = uniform(np.stack([planes(n.position) for n in leaves] or [planes(p)]))
        for leaf, prior, expected in zip(leaves, policy, value, strict=False):
            search.absorb(leaf, prior, float(expected))
    return search.root


def test_the_search_finds_the_winning_pass() -> None:
    """White has passed and Black has more: passing ends the game, and wins it."""
    ahead = position("XX.XX .XXXX XXXXX XXXXX O.O..".replace(" ", "\n"), WHITE).play(25)
    assert ahead.passes == 1
    assert int(searched(ahead, 400).visits.argmax()) == 25


def test_the_search_does_not_pass_when_behind() -> None:
    behind = position("OO.OO .OOOO OOOOO OOOOO X.X..".replace(" ", "\n"), WHITE).play(25)
    root = searched(behind, 400)
    assert root.visits[25] < 0.2 * root.visits.sum()


def test_assumed_losses_are_taken_back() -> None:
    """Sums of values stay within the visits, and no visit remains without an evaluation."""
    root = searched(Position(5), 100)
    assert root.total == pytest.approx(0)  # every evaluation was 0, and no game ended

    def check(node: Node) -> None:
        for move, child in node.children.items():
            assert node.visits[move] == child.visits.sum() + 1
            check(child)

    check(root)


def test_leaves_of_a_round_differ() -> None:
    search = Search(Node(Position(5)), 0.5, 200)
    (root,) = search.leaves(8)
    search.absorb(root, np.full(26, 1 / 26, np.float32), 0.0)
    assert len({id(node) for node in search.leaves(8)}) == 8


def test_what_a_move_led_to_is_kept() -> None:
    root = searched(Position(5), 200)
    search = Search(root, 0.5, 200)
    move = int(root.visits.argmax())
    below = root.children[move].visits.sum()
    search.advance(move)
    assert search.root.parent is None
    assert search.root.visits.sum() == below > 0


def test_results_are_those_of_the_player_to_move() -> None:
    play = SelfPlay(readouts=4, leaves=2, komi=0.5)
    game = Game(Dimensions(board=3), play)
    shares = np.full(10, 0.1, np.float32)
    for move in (4, 9, 9):  # Black takes the middle and both pass
        game.positions.append((game.search.root.position, shares))
        game.search.advance(move)
    assert game.search.is_over(game.search.root.position)
    assert [value for _, _, value in game.examples()] == [1, -1, 1]


def test_games_make_batches() -> None:
    """Synthetic positions until a game is over, then positions of games."""
    d = Dimensions(board=4, self_play=SelfPlay(readouts=8, leaves=4, komi=0.5))
    sizes = []

    def evaluate(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sizes.append(len(positions))
        return uniform(positions)

    players = Players(d, evaluate)
    rng = np.random.default_rng(0)
    like = go_batch(2, 4, np.random.default_rng(0))
    for _ in range(30):
        batch = players.batch(2, rng)
        assert {k: (v.shape, v.dtype) for k, v in batch.items()} == {
            k: (v.shape, v.dtype) for k, v in like.items()
        }
        assert batch["policy"].sum(1) == pytest.approx(1)
        assert set(batch["value"]) <= {-1, 1}
    assert set(sizes) == {2 * 4}  # of the same shape always
    assert len(sizes) == 30 * 2
    assert len(players._window) > 10


def test_synthetic_positions_can_be_learnt() -> None:
    batch = go_batch(64, 9, np.random.default_rng(0))
    own, other = batch["position"][:, 0], batch["position"][:, 1]
    assert not (own * other).any()
    assert batch["policy"].sum(1) == pytest.approx(1)
    best = batch["policy"][:, :-1].argmax(1)
    beside = np.pad(own, ((0, 0), (1, 1), (1, 1)))
    for sample, move in enumerate(best):
        row, column = divmod(int(move), 9)
        assert own[sample, row, column] == other[sample, row, column] == 0
        cross = beside[sample, row : row + 3, column : column + 3]
        assert cross[0, 1] + cross[2, 1] + cross[1, 0] + cross[1, 2] > 0
    ahead = own.sum((1, 2)) > other.sum((1, 2))
    assert (batch["value"] == np.where(ahead, 1, -1)).all()
    # An older board has one stone less.
    newest = own + other - batch["position"][:, 2] - batch["position"][:, 3]
    assert newest.sum((1, 2)).tolist() == [1] * 64
