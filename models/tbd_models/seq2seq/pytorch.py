"""Seq2Seq in PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tbd_models.pytorch.recurrent import LSTM
from tbd_models.pytorch.workload import Workload, as_tensors, cross_entropy
from tbd_models.seq2seq import Dimensions
from tbd_models.synthetic import translation_batch

# Hidden state and memory cell of every layer, each of shape (layers, N, width).
State = tuple[Tensor, Tensor]


class Encoder(nn.Module):
    """Embedding and LSTM layers in one direction."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.embedding = nn.Embedding(d.vocabulary, d.width)
        self.lstm = LSTM(d.width, d.width, d.layers, batch_first=True)

    def forward(self, words: Tensor) -> tuple[Tensor, State]:
        """Return the states after every word, (N, S, width), and the last of every layer."""
        embedded: Tensor = self.embedding(words)
        zero = embedded.new_zeros(self.lstm.num_layers, len(words), self.lstm.hidden_size)
        # Fused LSTMs compute the gradient of the first state whether anyone wants it or not; asking
        # for it makes those that run step by step do the same work.
        found: tuple[Tensor, State] = self.lstm(embedded, (zero.requires_grad_(), zero.detach()))
        return found


class AdditiveAttention(nn.Module):
    """Attention whose scores come from a layer of tanh units (Bahdanau et al. 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, query: Tensor, keys: Tensor, memory: Tensor) -> Tensor:
        """Return the mean of the memory, weighted by how well its keys fit the query.

        Args:
            query: (N, width).
            keys: (N, S, width), the memory projected.
            memory: (N, S, width).

        Returns:
            Context of shape (N, width).
        """
        scores: Tensor = self.score(torch.tanh(keys + self.query(query)[:, None]))
        weights = scores.transpose(1, 2).softmax(-1)
        return (weights @ memory).squeeze(1)


class Decoder(nn.Module):
    """LSTM layers whose input at every step is a word and what was attended to before."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.embedding = nn.Embedding(d.vocabulary, d.width)
        self.cells = nn.ModuleList(
            nn.LSTMCell(2 * d.width if layer == 0 else d.width, d.width)
            for layer in range(d.layers)
        )
        self.keys = nn.Linear(d.width, d.width, bias=False)
        self.attention = AdditiveAttention(d.width)
        self.combine = nn.Linear(2 * d.width, d.width, bias=False)

    def forward(self, words: Tensor, memory: Tensor, state: State) -> Tensor:
        """Return the attention vector after every word.

        Args:
            words: (N, T), the word before the one to be told.
            memory: (N, S, width), what the encoder put out.
            state: the encoder's last.

        Returns:
            Attention vectors of shape (N, T, width).
        """
        keys = self.keys(memory)
        states = list(zip(*(part.unbind() for part in state), strict=True))
        attended = torch.zeros_like(memory[:, 0])
        found = []
        # The first layer needs what was attended to in the step before, so no layer can run over
        # all steps at once.
        for word in self.embedding(words).unbind(1):
            x = torch.cat([word, attended], 1)
            for layer, cell in enumerate(self.cells):
                states[layer] = cell(x, states[layer])
                x = states[layer][0]
            context = self.attention(x, keys, memory)
            attended = self.combine(torch.cat([x, context], 1))
            found.append(attended)
        return torch.stack(found, 1)


class Seq2Seq(nn.Module):
    """Encoder, decoder and scores of the words of the target."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.encoder = Encoder(d)
        self.decoder = Decoder(d)
        self.scores = nn.Linear(d.width, d.vocabulary, bias=False)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return word scores of shape (N, T, vocabulary) for sentences (N, S) and (N, T)."""
        memory, state = self.encoder(source)
        scores: Tensor = self.scores(self.decoder(target, memory, state))
        return scores


def workload(d: Dimensions) -> Workload:
    """Return the workload of these dimensions."""
    return Workload(
        model=Seq2Seq(d),
        batch=lambda size, rng: as_tensors(translation_batch(size, d.length, d.vocabulary, rng)),
        forward=lambda model, batch: model(batch["source"], batch["target"]),
        loss=lambda scores, batch: cross_entropy(scores, batch["label"]),
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=d.learning_rate),
        clip_norm=d.clip_norm,
    )
