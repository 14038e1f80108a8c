"""The network: a decoder-only transformer."""

import torch
from torch import nn
from torch.nn import functional as F

from gputrain.data import DIGITS, LENGTH


class Block(nn.Module):
    """Attention over what came before, then two layers for each place."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.before = nn.LayerNorm(width)
        self.mixed = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        self.layers = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, states):
        batch, length, width = states.shape
        parts = self.mixed(self.before(states)).chunk(3, dim=-1)
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts
        )
        dropout = self.dropout if self.training else 0.0
        heard = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        states = states + self.joined(heard.transpose(1, 2).reshape(batch, length, width))
        return states + self.layers(states)


class Transformer(nn.Module):
    """Logits of the next digit for each place of a sequence."""

    def __init__(self, width=128, depth=4, heads=4, dropout=0.1):
        super().__init__()
        self.digits = nn.Embedding(DIGITS, width)
        self.places = nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(depth)))
        self.after = nn.LayerNorm(width)
        self.logits = nn.Linear(width, DIGITS)

    def forward(self, digits):
        places = torch.arange(digits.shape[1], device=digits.device)
        states = self.blocks(self.digits(digits) + self.places(places))
        return self.logits(self.after(states))
