"""Hold code that runs on the host, in images and alone: Python 3.8, the standard library only."""
