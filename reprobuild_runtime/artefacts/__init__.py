"""What a command wrote: put aside after it ended (`collect`), and compared with another run (`compare`)."""
