"""The lines of a freeze: to exact files of the machine's indexes, or to a ruling that says why not."""
