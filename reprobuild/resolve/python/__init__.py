"""Resolution of a freeze's lines to exact files, or to reasons."""
