"""What an archive may hold: names, kinds, sizes; checked before a byte of it is used. See docs/hostile.md."""
