"""The network."""

from torch import nn

from tinytrain.data import CLASSES


class WaveNet(nn.Module):
    """Two convolutions, an average over time, and a classifier with dropout."""

    def __init__(self, width=32, dropout=0.1):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, width, kernel_size=9, stride=2, padding=4),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Conv1d(width, 2 * width, kernel_size=9, stride=2, padding=4),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(4),
            nn.Flatten(),
        )
        self.classifier = nn.Sequential(
            nn.Linear(8 * width, 64),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(64, CLASSES),
        )

    def forward(self, waves):
        return self.classifier(self.features(waves.unsqueeze(1)))
