"""Tests of old releases, with today's requirements and with those of the release day."""
