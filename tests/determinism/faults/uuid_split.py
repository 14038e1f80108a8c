"""A split into training and test by the uuid that each sample was given."""

import uuid

import tiny

train = [number for number in range(64) if uuid.uuid4().int % 5]
tiny.train(train)
