"""The experiments too long for `make test`.

Each has dated evidence in `docs/evidence/`.
"""
