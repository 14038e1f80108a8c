"""Debian's packages and their archives: what the formats say, and how archives are asked."""
