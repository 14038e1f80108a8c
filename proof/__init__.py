"""The long experiments: what `make test` is too short for, each with dated evidence in `docs/evidence/`."""
