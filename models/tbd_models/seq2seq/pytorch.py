"""Seq2Seq in PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tbd_models.padded import translations
from tbd_models.pytorch.recurrent import LSTM
from tbd_models.pytorch.workload import Workload, as_tensors, cross_entropy
from tbd_models.seq2seq import Dimensions
from tbd_models.synthetic import translation_batch

# Hidden states and memory cells of all layers, each (layers, N, width).
State = tuple[Tensor, Tensor]


class Encoder(nn.Module):
    """Embedding and unidirectional LSTM layers."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.embedding = nn.Embedding(d.source_vocabulary, d.width)
        self.lstm = LSTM(d.width, d.width, d.layers, batch_first=True)

    def forward(self, words: Tensor) -> tuple[Tensor, State]:
        # Returns the states after each word (N, S, width) and the last state of each layer.
        embedded: Tensor = self.embedding(words)
        zero = embedded.new_zeros(self.lstm.num_layers, len(words), self.lstm.hidden_size)
        # Fused LSTMs always compute the gradient of the initial hidden state. Requesting it makes
        # unfused ones do the same work.
        output: tuple[Tensor, State] = self.lstm(embedded, (zero.requires_grad_(), zero.detach()))
        return output


class AdditiveAttention(nn.Module):
    """Attention with scores from a layer of tanh units (Bahdanau et al. 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(
        self, query: Tensor, keys: Tensor, memory: Tensor, padding: Tensor | None = None
    ) -> Tensor:
        # query: (N, width), keys: projected memory (N, S, width), memory: (N, S, width),
        # padding: (N, S), True for positions of the memory to leave out.
        # Returns the memory's mean (N, width), weighted by how well its keys match the query.
        scores: Tensor = self.score(torch.tanh(keys + self.query(query)[:, None]))
        if padding is not None:
            scores = scores.masked_fill(padding[..., None], -torch.inf)
        weights = scores.transpose(1, 2).softmax(-1)
        return (weights @ memory).squeeze(1)


class Decoder(nn.Module):
    """LSTM layers that read a word and the previous attention vector in each step."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.embedding = nn.Embedding(d.target_vocabulary, d.width)
        self.cells = nn.ModuleList(
            nn.LSTMCell(2 * d.width if layer == 0 else d.width, d.width)
            for layer in range(d.layers)
        )
        self.keys = nn.Linear(d.width, d.width, bias=False)
        self.attention = AdditiveAttention(d.width)
        self.combine = nn.Linear(2 * d.width, d.width, bias=False)

    def forward(
        self, words: Tensor, memory: Tensor, state: State, padding: Tensor | None = None
    ) -> Tensor:
        # words: previous target words (N, T), memory: encoder states (N, S, width), state: last
        # encoder state. Returns attention vectors (N, T, width).
        keys = self.keys(memory)
        states = list(zip(*(part.unbind() for part in state), strict=True))
        attended = torch.zeros_like(memory[:, 0])
        vectors = []
        # Input feeding (Luong et al. 2015): the first layer reads the previous attention vector,
        # so no layer can process all steps at once.
        for word in self.embedding(words).unbind(1):
            x = torch.cat([word, attended], 1)
            for layer, cell in enumerate(self.cells):
                states[layer] = cell(x, states[layer])
                x = states[layer][0]
            context = self.attention(x, keys, memory, padding)
            attended = self.combine(torch.cat([x, context], 1))
            vectors.append(attended)
        return torch.stack(vectors, 1)


class Seq2Seq(nn.Module):
    """Encoder, decoder and scores of the target words."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.encoder = Encoder(d)
        self.decoder = Decoder(d)
        self.scores = nn.Linear(d.width, d.target_vocabulary, bias=False)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def forward(self, source: Tensor, target: Tensor, padding: Tensor | None = None) -> Tensor:
        # source, padding: (N, S), target: (N, T); returns word scores (N, T, vocabulary).
        memory, state = self.encoder(source)
        scores: Tensor = self.scores(self.decoder(target, memory, state, padding))
        return scores


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    return Workload(
        model=Seq2Seq(d),
        batch=lambda size, rng: as_tensors(
            translation_batch(size, d.length, d.source_vocabulary, rng, d.target_vocabulary)
        ),
        forward=lambda model, batch: model(batch["source"], batch["target"], batch.get("padding")),
        loss=lambda scores, batch: cross_entropy(scores, batch["label"]),
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=d.learning_rate),
        clip_norm=d.clip_norm,
        sized=lambda planned, rng: as_tensors(
            translations(planned, d.source_vocabulary, rng, d.target_vocabulary)
        ),
    )
