"""What layers of an image are, wherever they come from: unpacked, and put over each other."""
